package main

// Faults in what observers are told, and in what Do tells.

var observerFaults = []mutant{
	{
		name: "observer: is not told that a hold was lost",
		file: "internal/lease/loss.go",
		old:  "\t\t\tdefer s.Done(\"hold\", why)\n",
		new:  "			_ = s\n",
		test: "TestObserverOfLosses",
	},
	{
		name: "observer: is told of the loss, and of the Unlock after it",
		file: "internal/holds/report.go",
		old:  "	if r.over {\n",
		new:  "	if false {\n",
		test: "TestObserverOfLosses",
	},
	{
		name: "observer: is told of an end before the grant",
		file: "internal/holds/report.go",
		old:  "	return r.known\n",
		new:  "	return true\n",
		test: "TestObserverOfUnlockBeforeItIsTold",
	},
	{
		name: "observer: is never told of a hold that ended before it was told of the grant",
		file: "internal/holds/report.go",
		old:  "	if over {\n",
		new:  "	if over && r.tell == nil {\n",
		test: "TestObserverOfLossBeforeItIsTold",
	},
	{
		name: "observer: is not told of Extend",
		file: "internal/lease/extend.go",
		old:  "	defer l.tellRenewal(func() context.Context { return ctx }, o) // deferred: the answer takes effect before the hook runs\n",
		new:  "",
		test: "TestObserverOfExtend",
	},
	{
		name: "Do: does not tell of a loss that its function was told",
		file: "internal/lease/unlock.go",
		old:  "		h.noteLoss(errs.Gone(over))\n",
		new:  "",
		test: "TestDoReportsALoss",
	},
}
