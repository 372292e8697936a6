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
		name: "Do: takes any loss that its function returns for its own",
		file: "internal/errs/loss.go",
		old:  "if errors.Is(loss, reason) && !errors.Is(err, reason) {",
		new:  "if reason == ErrLockLost && errors.Is(loss, reason) && !errors.Is(err, reason) {",
		test: "TestDoDoesNotRepeatTheLoss",
	},
	{
		name: "hint: names an owner that has unlocked",
		file: "internal/lease/holders.go",
		old:  "		o.prev.next = o.next\n",
		new:  "",
		test: "TestHintNamesAnOwnerThatHolds",
	},
}
