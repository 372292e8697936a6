package main

// Faults in the client: in how it waits.

var clientFaults = []mutant{
	{
		name: "subscription: counts on one that is not there",
		file: "poll.go",
		old:  "if !l.queue.feed.reaches() {",
		new:  "if !l.queue.feed.started {",
		test: "TestPollIsNeverFaster",
	},
	{
		name: "subscription: looks at nothing when it was cut",
		file: "queue.go",
		old:  "	for _, l := range q.lines {\n",
		new:  "	for _, l := range map[string]*line{} {\n",
		test: "TestWaiterLooksAgainAfterItsSubscriptionWasCut",
	},
	{
		name: "subscription: trusts one that is silent",
		file: "feed.go",
		old:  "sent.Sub(f.asked) > maxSilence",
		new:  "sent.Sub(f.asked) > time.Hour",
		test: "TestSilentSubscription",
	},
	{
		name: "waiter: is not woken by its message",
		file: "queue.go",
		old:  "w.line.redisKey == redisKey:\n		w.nudge()\n",
		new:  "w.line.redisKey == redisKey:\n",
		test: "TestWaiterIsWokenByTheRelease",
	},
	{
		name: "waiter: does not poll",
		file: "poll.go",
		old:  "if len(l.waits) == 0 {",
		new:  "if len(l.waits) >= 0 {",
		test: "TestServerForgetsTheQueue",
	},
	{
		name: "waiter: leaves an unknown wait in its place",
		file: "queue.go",
		old:  `	case rest != "":`,
		new:  `	case rest == "none":`,
		test: "TestUnknownWaitGivesItsTurnUp",
	},
	{
		name: "waiter: gives up without a word",
		file: "queued.go",
		old:  "if w.sent && (!w.once || w.doubt.exists()) {",
		new:  "if w.sent && w.once && w.doubt.exists() {",
		test: "TestWaiterGivesUpInTheQueue",
	},
	{
		name: "waiter: forgets the first attempt where the second finds no server",
		file: "queued.go",
		old:  "w.sent || !o.sent.IsZero() || d.exists()",
		new:  "w.sent || !o.sent.IsZero()",
		test: "TestServerGoesAwayBeforeItAnswers",
	},
	{
		name: "waiter: all that are woken together send together",
		file: "poll.go",
		old:  "		w.crowd = true\n",
		new:  "		w.crowd = false\n",
		test: "TestManyWaitersEndOverAHandfulOfConnections",
	},
	{
		name: "waiter: its owner's other goroutines sleep on",
		file: "owner.go",
		old:  "		o.wakeOthers(w)\n",
		new:  "",
		test: "TestTwoGoroutinesOfOneOwnerWait",
	},
	{
		name: "release: takes what is reserved for the next one for a loss",
		file: "release.go",
		old:  "o.reply == int64(answerOther) || o.reply == int64(answerAlien) //",
		new:  "o.reply == int64(answerOther) //",
		test: "TestReleaseIsSentTwice",
	},
	{
		name: "poll: answers that come too late wake nobody",
		file: "poll.go",
		old:  "case o.sent.IsZero() || o.unanswered():",
		new:  "case o.sent.IsZero():",
		test: "TestWaiterWhosePollsAreAnsweredLate",
	},
	{
		name: "poll: comes as often as a call wanted it that has left",
		file: "poll.go",
		old:  "	l.pace()\n",
		new:  "",
		test: "TestPollForgetsAHastyCall",
	},
}
