package conform

// tests lists the promises, each with what it requires of a backend.
var tests = []struct {
	name    string
	applies func(Backend) bool
	run     func(*suite)
	waits   bool // for leases to go by
}{
	{"Grant", nil, grant, false},
	{"HeldByOthers", nil, heldByOthers, false},
	{"GoroutinesExcludeEachOther", func(b Backend) bool { return !b.Reentrant }, sameLocker, false},
	{"UnlockOnce", nil, unlockOnce, false},
	{"UnlockAfterTheContext", nil, unlockAfterTheContext, false},
	{"HoldOutlivesTheCaller", nil, holdOutlivesTheCaller, false},
	{"WaiterIsServed", nil, waiterIsServed, false},
	{"WaitEndsWithItsContext", nil, waitEnds, false},
	{"ContextOverBefore", nil, contextOverBefore, false},
	{"Mistakes", nil, mistakes, false},
	{"Renewal", nil, renewal, true},
	{"Extend", nil, extend, false},
	{"ExtendMistakes", nil, extendMistakes, false},
	{"Loss", func(b Backend) bool { return b.Break != nil }, loss, true},
	{"LossUnderDo", func(b Backend) bool { return b.Break != nil }, lossUnderDo, true},
	{"Nested", func(b Backend) bool { return !b.Refuses }, nested, false},
	{"NestedInDo", func(b Backend) bool { return !b.Refuses }, nestedInDo, true},
	{"NestedAfterUnlock", func(b Backend) bool { return !b.Reentrant }, nestedAfterUnlock, false},
	{"NestedAfterALoss", func(b Backend) bool { return !b.Refuses && b.Break != nil }, nestedAfterALoss, true},
	{"NestedIsRefused", func(b Backend) bool { return b.Refuses }, nestedIsRefused, false},
	{"Do", nil, do, false},
	{"DoPanics", nil, doPanics, false},
	{"DoEndsWithItsContext", nil, doEndsWithItsContext, false},
	{"DoEndsAtItsDeadline", nil, doEndsAtItsDeadline, false},
	{"DoIsNotRun", nil, doIsNotRun, false},
	{"TryDo", nil, tryDo, false},
	{"Exclusion", nil, exclusion, false},
	{"OrderOfArrival", func(b Backend) bool { return b.Fair && b.Waiting != nil }, order, false},
	{"TryLockOvertakesNobody", func(b Backend) bool { return b.Fair && b.Waiting != nil }, tryOvertakesNobody, false},
	{"OneWhoGivesUpBlocksNobody", func(b Backend) bool { return b.Waiting != nil }, givesUp, false},
	{"Cancels", nil, cancels, false},
	{"FencingTokens", func(b Backend) bool { return b.Fenced }, tokens, false},
	{"Faults", func(b Backend) bool { return b.Faulty != nil }, faults, true},
}
