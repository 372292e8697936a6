package script

// What the scripts answer.
const (
	Ours     = 1
	Kept     = 2 // released before, and kept for its minimum hold
	Unqueued = 3 // the wait is not in the queue
	More     = 4 // done, and more waits are before the next one that lives than one script looks at
	Full     = 5 // as many wait as may
	Young    = 6 // the server was started too short a time ago
	Shared   = 7 // others read
	Other    = 0 // held by others; not ours
	Foreign  = -1
)

// IsOurs reports whether a release or a renewal found what it was for.
func IsOurs(reply any) bool {
	return reply == int64(Ours) || reply == int64(Kept) || reply == int64(More)
}
