package main

// What errors, logs and figures say.
var explainFaults = []mutant{
	{
		name: "OutcomeOf: a cancelled wait is busy",
		file: "outcome.go",
		old:  "lockspec.ContextEnd(err)",
		new:  "lockspec.ContextEnd(nil)",
		test: "TestOutcomeOfAWait",
	},
	{
		name: "OutcomeOf: not held hides lost",
		file: "outcome.go",
		old:  "	{ErrLockLost, OutcomeLost},\n",
		new:  "	{ErrNotHeld, OutcomeInvalid},\n	{ErrLockLost, OutcomeLost},\n",
		test: "TestOutcomeOfALoss",
	},
	{
		name: "OutcomeOf: a permission hides a release that is not confirmed",
		file: "outcome.go",
		old:  "	{ErrUnconfirmed, OutcomeUnconfirmed},\n",
		new:  "	{ErrDenied, OutcomeDenied},\n	{ErrUnconfirmed, OutcomeUnconfirmed},\n",
		test: "TestOutcomeOfSeveralReasons",
	},
	{
		name: "Close: does not say what it leaves",
		file: "internal/lease/manager.go",
		old:  "		m.warnOfHeld(held)\n",
		new:  "",
		test: "TestCloseSaysWhatItLeaves",
	},
	{
		name: "Close: a minimum hold does not count",
		file: "internal/lease/close.go",
		old:  "return later(l.validUntil.Add(Drift(l.lease)), l.keptUntil())",
		new:  "return l.validUntil.Add(Drift(l.lease))",
		test: "TestCloseCountsAMinimumHold",
	},
	{
		name: "Remaining: goes below 0",
		file: "internal/holds/contexts.go",
		old:  "return max(0, time.Until(validUntil))",
		new:  "return time.Until(validUntil)",
		test: "TestRemaining",
	},
	{
		name: "Stats: Close counts as losses",
		file: "internal/lease/loss.go",
		old:  "l.levels.Live > 0 && why != errs.ErrClosed {",
		new:  "l.levels.Live > 0 {",
		test: "TestStatsOfRenewals",
	},
	{
		name: "Stats: a wait that has ended still waits",
		file: "internal/acquire/pause.go",
		old:  "func (w *wait) end() { w.client.Counts.Waiting.Add(-1) }",
		new:  "func (w *wait) end() {}",
		test: "TestStats",
	},
	{
		name: "Do: takes any loss that its function returns for its own",
		file: "internal/errs/loss.go",
		old:  "if errors.Is(loss, reason) && !errors.Is(err, reason) {",
		new:  "if reason == ErrLockLost && errors.Is(loss, reason) && !errors.Is(err, reason) {",
		test: "TestDoDoesNotRepeatTheLoss",
	},
	{
		name: "old hold: is logged at each renewal",
		file: "internal/lease/forgotten.go",
		old:  "	r.old = true\n",
		new:  "",
		test: "TestForgottenHoldIsLogged",
	},
	{
		name: "observer: a renewal that was not sent has no start",
		file: "internal/lease/watchdog.go",
		old:  "		e.Start = e.End\n",
		new:  "",
		test: "TestObserverHooksAreEven",
	},
	{
		name: "hint: names an owner that has unlocked",
		file: "internal/lease/holders.go",
		old:  "		o.prev.next = o.next\n",
		new:  "",
		test: "TestHintNamesAnOwnerThatHolds",
	},
}
