package main

// Faults in what the client tells, and in when it stops waiting.

var answerFaults = []mutant{
	{
		name: "scripts: believe a replica that the lock is not ours",
		file: "lua/absent.lua",
		old:  "if type(write) == 'table' and string.find(write.err, 'READONLY', 1, true) then",
		new:  "if not write then",
		test: "TestOldMasterHasForgottenTheHold",
	},
	{
		name: "claim: believes a replica that others have the lock",
		file: "lua/claim.lua",
		old:  "    redis.call('ZREM', KEYS[2], '') -- a replica refuses it: what it has may be old\n",
		new:  "",
		test: "TestScriptsOnAReplicaThatHasTheLock",
	},
	{
		name: "Unlock: takes a replica's refusal for an earlier copy that did it",
		file: "call.go",
		old:  "	case isReadOnly(o.err): // nothing was done\n",
		new:  "",
		test: "TestNeitherMasterHasTheHold",
	},
	{
		name: "wait: forgets that the key was taken",
		file: "plain.go",
		old:  "		w.note(ErrLockAcquiredByOthers) // until the queue says more\n",
		new:  "",
		test: "TestWaitEndsBeforeTheQueueAnswers",
	},
	{
		name: "Unlock: refused under a context that has ended",
		file: "lock.go",
		old:  "\th := l.held\n",
		new:  "\th := l.held\n\tif ctx.Err() != nil {\n\t\th = nil\n\t}\n",
		test: "TestUnlockWithEndedContext",
	},
	{
		name: "Unlock: says nothing of a loss that the release finds",
		file: "release.go",
		old:  "return gone(why)",
		new:  "return nil",
		test: "TestDoReportsALoss",
	},
	{
		name: "Unlock: says nothing of a loss before it",
		file: "hold.go",
		old:  "return gone(h.over)",
		new:  "return nil",
		test: "TestUnlockAfterExpiryWhileAnotherHolds",
	},
	{
		name: "Unlock: finds nothing at its first try, and calls that success",
		file: "release.go",
		old:  "levels == 0 && !first && inTime",
		new:  "levels == 0 && inTime",
		test: "TestDoReportsALoss",
	},
	{
		name: "Unlock: finds nothing when the belief is over, and calls that success",
		file: "release.go",
		old:  "levels == 0 && !first && inTime",
		new:  "levels == 0 && !first && (inTime || levels == 0)",
		test: "TestUnlockAfterTheBeliefIsNoSuccess",
	},
	{
		name: "Unlock: without an answer is success",
		file: "release.go",
		old:  "return both(ErrUnconfirmed, o.err)",
		new:  "return nil",
		test: "TestUnlockUnconfirmed",
	},
	{
		name: "wait: sleeps on after the end of its context",
		file: "waiter.go",
		old:  "case <-due:\n\t\tagain = true\n\tcase <-w.ctx.Done():\n",
		new:  "case <-due:\n\t\tagain = true\n\tcase <-w.ctx.Done():\n\t\ttime.Sleep(3 * time.Second)\n",
		test: "TestWaiterSleepsNoLongerThanItsContext",
	},
	{
		name: "wait: sleeps on after Close",
		file: "waiter.go",
		old:  "case <-w.ctx.Done():\n\tcase <-w.client.life.Done():\n",
		new:  "case <-w.ctx.Done():\n",
		test: "TestWaiterSleepsNoLongerThanItsContext",
	},
	{
		name: "wait: asks again at once",
		file: "poll.go",
		old:  "return l.interval + rand.N(l.interval/5+1)",
		new:  "return rand.N(l.interval/5 + 1)",
		test: "TestPollIsNeverFaster",
	},
	{
		name: "Close: leaves the holds as they are",
		file: "client.go",
		old:  "l.lose(ErrClosed)",
		new:  "_ = l",
		test: "TestClose",
	},
}
