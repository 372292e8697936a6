package main

// Faults in what a MultiLock of several slots or servers asks for, and
// releases, together.
var atOnceFaults = []mutant{
	{
		name: "together: keys of a Cluster are asked for by server",
		file: "internal/acquire/multi_once.go",
		old:  "routed && s.Sharded() {",
		new:  "routed && !s.Sharded() {",
		in:   "internal/acquire",
		test: "TestMultiLockOfSlots",
	},
	{
		name: "together: one group is asked for after another",
		file: "internal/acquire/multi_once.go",
		old:  "return a.first == \"\" &&",
		new:  "return a.first != \"\" &&",
		in:   "internal/acquire",
		test: "TestMultiLockAtOnceWhileAServerHangs",
	},
	{
		name: "together: groups that wait for replicas are asked for together",
		file: "internal/acquire/multi_once.go",
		old:  " && a.lock.part.Replicas == 0",
		new:  "",
		in:   "internal/acquire",
		test: "TestMultiLockWithReplicasAsksInOrder",
	},
	{
		name: "together: what was taken in vain is kept",
		file: "internal/acquire/multi_once.go",
		old:  "		t.taken[n] = err == nil\n",
		new:  "		t.taken[n] = err != nil && n < 0\n",
		in:   "internal/acquire",
		test: "TestMultiLockAtOnceTakesNothing",
	},
	{
		name: "together: calls that collide give up",
		file: "internal/acquire/multi_once.go",
		old:  "return value == a.first &&",
		new:  "return value != a.first &&",
		in:   "internal/acquire",
		test: "TestMultiLockTriesOnceMore",
	},
	{
		name: "together: the highest token does not reach all keys",
		file: "internal/acquire/multi_once.go",
		old:  "t.busy, t.err = 0, a.raise(ctx, t)",
		new:  "t.busy = 0",
		in:   "internal/acquire",
		test: "TestMultiLockFencingOfSlots",
	},
	{
		name: "together: follows no redirect",
		file: "internal/driver/together.go",
		old:  "p.node.follow(ctx, limit, p.requests[i], p.node.noted(o), (*node).Send)",
		new:  "p.node.noted(o)",
		in:   "internal/acquire",
		test: "TestMultiLockOfSlotsFollowsRedirects",
	},
	{
		name: "together: an unknown script is not sent in full",
		file: "internal/script/run_all.go",
		old:  "ok && b.sent[i] < maxSent {",
		new:  "ok && b.sent[i] > maxSent {",
		in:   "internal/acquire",
		test: "TestMultiLockOfSlotsFollowsRedirects",
	},
	{
		name: "release: waits for a key that needs none",
		file: "internal/lease/gather.go",
		old:  "			g.leave(one.hold.lease)\n			results <-",
		new: "			late, stop := context.WithTimeout(context.Background(), 12e9) // as it would hang\n" +
			"			context.AfterFunc(late, func() { stop(); g.leave(one.hold.lease) })\n" +
			"			results <-",
		in:   "internal/acquire",
		test: "TestMultiLockUnlocksWithoutAMember",
	},
}
