package conform

// tests lists the promises, each with what it requires of a backend.
var tests = []struct {
	name    string
	applies func(Backend) bool
	run     func(*suite)
}{
	{"Grant", nil, grant},
	{"HeldByOthers", nil, heldByOthers},
	{"GoroutinesExcludeEachOther", func(b Backend) bool { return !b.Reentrant }, sameLocker},
	{"UnlockOnce", nil, unlockOnce},
	{"UnlockAfterTheContext", nil, unlockAfterTheContext},
	{"HoldOutlivesTheCaller", nil, holdOutlivesTheCaller},
	{"WaiterIsServed", nil, waiterIsServed},
	{"WaitEndsWithItsContext", nil, waitEnds},
	{"ContextOverBefore", nil, contextOverBefore},
	{"Mistakes", nil, mistakes},
	{"Renewal", nil, renewal},
	{"Extend", nil, extend},
	{"ExtendMistakes", nil, extendMistakes},
	{"Loss", func(b Backend) bool { return b.Break != nil }, loss},
	{"LossUnderDo", func(b Backend) bool { return b.Break != nil }, lossUnderDo},
	{"Nested", func(b Backend) bool { return !b.Refuses }, nested},
	{"NestedInDo", func(b Backend) bool { return !b.Refuses }, nestedInDo},
	{"NestedAfterUnlock", func(b Backend) bool { return !b.Reentrant }, nestedAfterUnlock},
	{"NestedAfterALoss", func(b Backend) bool { return !b.Refuses && b.Break != nil }, nestedAfterALoss},
	{"NestedIsRefused", func(b Backend) bool { return b.Refuses }, nestedIsRefused},
	{"Do", nil, do},
	{"DoPanics", nil, doPanics},
	{"DoEndsWithItsContext", nil, doEndsWithItsContext},
	{"DoEndsAtItsDeadline", nil, doEndsAtItsDeadline},
	{"DoIsNotRun", nil, doIsNotRun},
	{"TryDo", nil, tryDo},
	{"Exclusion", nil, exclusion},
	{"OrderOfArrival", func(b Backend) bool { return b.Fair && b.Waiting != nil }, order},
	{"TryLockOvertakesNobody", func(b Backend) bool { return b.Fair && b.Waiting != nil }, tryOvertakesNobody},
	{"OneWhoGivesUpBlocksNobody", func(b Backend) bool { return b.Waiting != nil }, givesUp},
	{"Cancels", nil, cancels},
	{"FencingTokens", func(b Backend) bool { return b.Fenced }, tokens},
	{"Faults", func(b Backend) bool { return b.Faulty != nil }, faults},
}
