package main

// What errors, logs and figures say.
var explainFaults = []mutant{
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
