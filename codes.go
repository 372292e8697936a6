package relock

// What the scripts answer.
const (
	answerOurs     = 1
	answerKept     = 2 // released before, and kept for its minimum hold
	answerUnqueued = 3 // the wait is not in the queue
	answerMore     = 4 // done, and more waits are before the next one that lives than one script looks at
	answerFull     = 5 // as many wait as may
	answerYoung    = 6 // the server was started too short a time ago
	answerShared   = 7 // others read
	answerOther    = 0 // held by others; not ours
	answerAlien    = -1
)

// isOurs says that a release or a renewal found what it was for.
func isOurs(reply any) bool {
	return reply == int64(answerOurs) || reply == int64(answerKept) || reply == int64(answerMore)
}
