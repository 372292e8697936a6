package main

// Faults in what observers are notified of, and in what Do reports.

var observerFaults = []mutant{
	{
		name: "observer: is not notified of a loss",
		file: "internal/lease/loss.go",
		old:  "\t\t\tdefer s.Done(\"hold\", why)\n",
		new:  "			_ = s\n",
		in:   "internal/lease",
		test: "TestObserverOfLosses",
	},
	{
		name: "observer: is notified of the loss, and of the Unlock after it",
		file: "internal/holds/report.go",
		old:  "	if r.over {\n",
		new:  "	if false {\n",
		in:   "internal/lease",
		test: "TestObserverOfLosses",
	},
	{
		name: "observer: is notified of an end before the grant",
		file: "internal/holds/report.go",
		old:  "	return r.known\n",
		new:  "	return true\n",
		in:   "internal/lease",
		test: "TestObserverOfUnlockBeforeItIsTold",
	},
	{
		name: "observer: is never notified of a hold that ended before the notice of its grant",
		file: "internal/holds/report.go",
		old:  "	if over {\n",
		new:  "\tif over && r.notify == nil {\n",
		in:   "internal/lease",
		test: "TestObserverOfLossBeforeItIsTold",
	},
	{
		name: "observer: is not notified of Extend",
		file: "internal/lease/extend.go",
		old:  "\tdefer l.reportRenewal(func() context.Context { return ctx }, o) // deferred: the answer takes effect before the hook runs\n",
		new:  "",
		in:   "internal/lease",
		test: "TestObserverOfExtend",
	},
	{
		name: "Do: does not report a loss that its function has seen",
		file: "internal/lease/unlock.go",
		old:  "		h.noteLoss(errs.Gone(over))\n",
		new:  "",
		test: "TestOutcomes/Do",
	},
}
