package main

// Faults in background work: renewals and the release retrier.

var watchdogFaults = []mutant{
	{
		name: "renewal: all holds with replicas wait for each other's",
		file: "internal/lease/watchdog.go",
		old:  "l.client.replicator(*l.confirm)",
		new:  "l.client.replicator(driver.Ack{2, 2 * time.Second})",
		in:   "proof/matrix",
		test: "TestReplicasThatDoNotComeDelayNoOtherRenewal",
	},
	{
		name: "renewal: the first error is the loss",
		file: "internal/lease/watchdog.go",
		old:  "r.report(o.Err)\n",
		new:  "r.report(o.Err)\n\t\tr.lease.lose(errs.ErrLockLost)\n",
		in:   "internal/lease",
		test: "TestRenewalErrorsAreSurvived",
	},
	{
		name: "renewal: the first error ends it",
		file: "internal/lease/watchdog.go",
		old:  "jitter(min(r.asked/10, maxRenewRetry))), true",
		new:  "jitter(min(r.asked/10, maxRenewRetry))), false",
		in:   "internal/lease",
		test: "TestRenewalErrorsAreSurvived",
	},
	{
		name: "renewal: errors count as replies",
		file: "internal/lease/watchdog.go",
		old:  "r.report(o.Err)\n",
		new:  "r.report(o.Err)\n\t\t_ = r.lease.extendValidity(time.Now(), r.asked)\n",
		in:   "internal/lease",
		test: "TestUnansweredRenewalsEndInLoss",
	},
	{
		name: "renewal: \"not ours\" is no loss",
		file: "internal/lease/watchdog.go",
		old:  "case o.Reply != int64(script.Ours):\n\t\tif",
		new:  "case o.Reply != int64(script.Ours):\n\t\treturn r.lease.renewAt(o.Sent), true\n\t\tif",
		in:   "internal/lease",
		test: "TestWatchdogFindsALoss",
	},
	{
		name: "renewal: once in a lease",
		file: "internal/lease/watchdog.go",
		old:  "sent.Add(jitter(watched / 3))\n\tif latest := l.validUntil.Add(-watched * 2 / 3)",
		new:  "sent.Add(jitter(watched))\n\tif latest := l.validUntil",
		in:   "internal/lease",
		test: "TestRenewalRate",
	},
	{
		name: "renewal: waits for the callers' pool",
		file: "internal/driver/opening.go",
		old:  "l.driver.dial(ctx)",
		new:  "l.driver.Redis.GetContext(ctx)",
		in:   "internal/driver",
		test: "TestFullPoolDoesNotStarveTheWatchdog",
	},
	{
		name: "renewal: a script that the server has forgotten is an error",
		file: "internal/script/run.go",
		old:  "Next(o.Err); ok {",
		new:  "Next(o.Err); ok && !driver.IsNoScript(o.Err) {",
		in:   "internal/lease",
		test: "TestRenewalAfterScriptFlush",
	},
	{
		name: "renewal: a late answer gets no more time",
		file: "internal/background/job.go",
		old:  "j.missed++",
		new:  "j.missed = 0",
		in:   "internal/lease",
		test: "TestShortLeaseBesideASlowLongOne",
	},
	{
		name: "renewal: a connection that was closed for a late answer counts as broken",
		file: "internal/driver/link.go",
		old:  "o.Broke() && closer != nil && !closer.Stop()",
		new:  "o.Broke() && closer != nil && false",
		in:   "internal/driver",
		test: "TestLateAnswerIsNoBreak",
	},
	{
		name: "Lock: a script that the server has forgotten is an error",
		file: "internal/script/run.go",
		old:  "next, ok := s.Next(o.Err)\n\t\tif !ok {",
		new:  "next, ok := s.Next(o.Err)\n\t\tif !ok || driver.IsNoScript(o.Err) {",
		in:   "internal/driver",
		test: "TestScriptFlushInATightLoop",
	},
	{
		name: "Unlock: an inner one stops the renewal",
		file: "internal/lease/unlock.go",
		old:  "if rest == 0 {\n\t\tl.leave()\n\t}",
		new:  "l.leave()",
		in:   "internal/acquire",
		test: "TestInnerUnlockLeavesTheOuterRenewed",
	},
	{
		name: "Unlock: sends the release before the renewal is stopped",
		file: "internal/lease/unlock.go",
		old: `	h.end(errs.ErrNotHeld)
	l.levels.Live--
	rest := l.levels.Live
	var next *Transfer
	var left *waitqueue.Entry // a queue entry that belongs to nobody now
	passed := false
	if rest == 0 {
		if left, passed = l.pass(h); !passed {
			next, left = l.choose(h)
			l.end(errs.ErrNotHeld)
		}
	}
	l.mu.Unlock()
	left.Leave()
	if passed {
		return nil
	}
	if rest == 0 {
		l.leave()
	}
	err = l.giveOn(rest, next, start)
`,
		new: `	rest := l.levels.Live - 1
	l.mu.Unlock()
	err = l.giveOn(rest, nil, start)
	l.mu.Lock()
	h.end(errs.ErrNotHeld)
	l.levels.Live--
	if l.levels.Live == 0 {
		l.end(errs.ErrNotHeld)
	}
	l.mu.Unlock()
	if rest == 0 {
		l.leave()
	}
`,
		in:   "internal/lease",
		test: "TestNoRenewalAfterTheRelease",
	},
}

var cleanUpFaults = []mutant{
	{
		name: "loss: is logged before the release",
		file: "internal/lease/loss.go",
		old:  "\t\tl.client.Retrier.Retry(l.cleanup(l.doubt))\n",
		new:  "\t\tdefer l.client.Retrier.Retry(l.cleanup(l.doubt))\n",
		in:   "internal/lease",
		test: "TestLossIsLoggedLast",
	},
	{
		name: "clean-up after a SET: ends with the caller's context",
		file: "internal/acquire/plain.go",
		old:  "d.Exists() {",
		new:  "d.Exists() && ctx.Err() == nil {",
		in:   "internal/lease",
		test: "TestAbandonedAcquireIsFreedWithinASecond",
	},
	{
		name: "clean-up after an acquire: ends with the caller's context",
		file: "internal/acquire/plain.go",
		old:  "if a.doubt.Exists() {",
		new:  "if a.doubt.Exists() && a.caller.Err() == nil {",
		in:   "internal/lease",
		test: "TestAbandonedAcquireIsFreedWithinASecond",
	},
	{
		name: "clean-up after a reentrant acquire: ends with the caller's context",
		file: "internal/acquire/reentrant.go",
		old:  "if !a.doubt.Exists() {",
		new:  "if !a.doubt.Exists() || a.wait.Caller.Err() != nil {",
		in:   "internal/lease",
		test: "TestAbandonedAcquireIsFreedWithinASecond",
	},
	{
		name: "clean-up: sent once",
		file: "internal/background/release.go",
		old:  "return sent.Add(pause), true",
		new:  "return sent.Add(pause), false",
		in:   "internal/lease",
		test: "TestAbandonedAcquireIsFreedWithinASecond",
	},
	{
		name: "clean-up: stops after its first answer",
		file: "internal/background/release.go",
		old:  "c.settled || !o.Sent.Before(c.until)",
		new:  "c.settled || o.Answered",
		in:   "internal/lease",
		test: "TestReleaseOvertakesTheAcquire",
	},
	{
		name: "clean-up: stops if its request was answered after it was sent",
		file: "internal/background/release.go",
		old:  "c.settled || !o.Sent.Before(c.until)",
		new:  "c.indeterminate.Resolved() || !o.Sent.Before(c.until)",
		in:   "internal/lease",
		test: "TestReleaseOvertakesTheAcquire",
	},
	{
		name: "clean-up: not after an error line",
		file: "internal/script/indeterminate.go",
		old:  "return d.Merge(Indeterminate{Error: true})",
		new:  "return d",
		in:   "internal/lease",
		test: "TestUnansweredAcquireIsUndone",
	},
	{
		name: "clean-up: not after a re-entry that failed",
		file: "internal/lease/reenter.go",
		old:  "if d.Exists() {",
		new:  "if false && d.Exists() {",
		in:   "internal/lease",
		test: "TestFailedReentryIsUndone",
	},
	{
		name: "release: not repeated against a late copy of the acquire",
		file: "internal/lease/release.go",
		old:  "if levels == 0 && !l.doubt.Last.IsZero() {",
		new:  "if levels < 0 {",
		in:   "internal/lease",
		test: "TestUnansweredAcquireIsUndone",
	},
	{
		name: "loss: the key is not released",
		file: "internal/lease/loss.go",
		old:  "l.client.Retrier.Retry(l.cleanup(l.doubt))\n",
		new:  "",
		test: "TestMaxHold",
	},
	{
		name: "retrier: connecting has no more time than an answer",
		file: "internal/background/release.go",
		old:  "	c.connect = min(2*max(c.connect, driver.MinConnect), c.retrier.dialTimeout)\n",
		new:  "	c.connect = 0\n",
		in:   "internal/waitqueue",
		test: "TestRetrierConnectsSlowly",
	},
	{
		name: "replicas: a master that becomes a replica ends the call",
		file: "internal/driver/ack.go",
		old:  "	case isDemoted(err):\n		return errDemoted\n",
		new:  "",
		in:   "proof/matrix",
		test: "TestMasterIsDemotedDuringTheWait",
	},
	{
		name: "worker: a slow dial does not count as a slow answer",
		file: "internal/background/job.go",
		old:  " || o.Unconnected(); !late {",
		new:  "; !late {",
		in:   "internal/background",
		test: "TestJobCountsWhatIsLate",
	},
	{
		name: "worker: borrows no connection at all",
		file: "internal/driver/detour.go",
		old:  "	if l.life.Err() != nil {\n		return nil, false",
		new:  "	if l != nil {\n		return nil, false",
		in:   "internal/driver",
		test: "TestFirstWatchedHoldAtTheLimit",
	},
	{
		name: "worker: borrows none after a refused connection",
		file: "internal/driver/detour.go",
		old:  "	return isRefusal(first.Err) || fresh && first.Broke()",
		new:  "	return false",
		in:   "internal/driver",
		test: "TestLateTryLockAtTheLimit",
	},
	{
		name: "worker: waits for a dial that hangs",
		file: "internal/driver/link.go",
		old:  "o.succeeds(MinConnect)",
		new:  "o.succeeds(time.Minute)",
		in:   "internal/driver",
		test: "TestBatchWhoseDialHangs",
	},
	{
		name: "worker: keeps a borrowed connection for as long as its own",
		file: "internal/driver/detour.go",
		old:  "min(below(d.commandTimeout, limit)+waitsOf(requests), limit)",
		new:  "d.commandTimeout + waitsOf(requests)",
		in:   "internal/driver",
		test: "TestBorrowedConnectionIsReturnedInTime",
	},
	{
		name: "worker: lets all others wait for the replicas of its batch",
		file: "internal/driver/detour.go",
		old:  "s != nil && waitsOf(requests) == 0 {",
		new:  "s != nil {",
		in:   "internal/driver",
		test: "TestBatchOverTheSharedConnection",
	},
	{
		name: "worker: a batch that it sent twice counts once",
		file: "internal/background/release.go",
		old:  "	if o.Resent {",
		new:  "	if o.Resent && c == nil {",
		in:   "internal/driver",
		test: "TestReleaseThatWasSentTwice",
	},
	{
		name: "driver: a new connection that is refused makes the idle ones stale",
		file: "internal/driver/stream.go",
		old:  "	if len(calls) > 0 && !refused {",
		new:  "	if len(calls) > 0 && (!refused || s != nil) {",
		in:   "internal/driver",
		test: "TestRefusedCallsLeaveIdleConnections",
	},
}
