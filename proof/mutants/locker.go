package main

// Faults in nested calls of a Locker, in what is made of a Locker, and in the
// Locker in memory.

const inMemory = "relocktest"

var lockerFaults = []mutant{
	{
		name: "locker: the Unlock of an inner hold releases the lock",
		file: "internal/lease/unlock.go",
		old:  "if levels > 0 && l.owner == nil {",
		new:  "if false {",
		test: "TestNestedCallOfALockerSendsNothing",
	},
	{
		name: "locker: the end of one nested hold's maximum releases the lock",
		file: "internal/lease/maxhold.go",
		old:  "if l.owner != nil {",
		new:  "if l != nil {",
		test: "TestMaximumHoldOfANestedLocker",
	},
	{
		name: "locker: a hold that has ended can be nested",
		file: "internal/lease/nest.go",
		old:  "case over != nil:",
		new:  "case over != nil && h == nil:",
		test: "TestMaximumHoldOfANestedLocker",
	},
	{
		name: "locker: a hold with other options can be nested",
		file: "internal/lease/nest.go",
		old:  " || !h.settings.SameHold(s) {",
		new:  " {",
		test: "TestWhichHoldsTakeALevel",
	},
	{
		name: "locker: TryDo waits",
		file: "locker.go",
		old:  "return doWith(ctx, l.TryLock, key, fn)",
		new:  "return doWith(ctx, l.Lock, key, fn)",
		test: "TestTryDo",
	},
	{
		name: "locker: a Mutex is free again when its hold was lost",
		file: "fromlocker.go",
		old:  "if m.object.Take(&h) {",
		new:  "if m.object.Take(&h) || (*m.object.Held()).Err() != nil {",
		test: "TestFromLockerAfterALoss",
	},
	{
		name: "in memory: a held lock is granted to another call",
		file: "relocktest/lock.go",
		old:  "{ return k.holder == nil && k.others == 0",
		new:  "{ return k.others == 0",
		in:   inMemory,
		test: "TestExclusion",
	},
	{
		name: "in memory: a hold stays valid when its lock is lost",
		file: "relocktest/control.go",
		old:  "k.holder.loseLocked()\n\tk.serveLocked()",
		new:  "k.holder = nil\n\tk.serveLocked()",
		in:   inMemory,
		test: "TestLose",
	},
	{
		name: "in memory: a release of Busy counts twice",
		file: "relocktest/control.go",
		old:  "func() { once.Do(k.release) }",
		new:  "func() { once.Do(func() {}); k.release() }",
		in:   inMemory,
		test: "TestBusy",
	},
	{
		name: "in memory: a cancelled call stays among the waiters",
		file: "relocktest/lock.go",
		old:  "bool { return one == w })",
		new:  "bool { return one == nil })",
		in:   inMemory,
		test: "TestWaiterLeaves",
	},
}
