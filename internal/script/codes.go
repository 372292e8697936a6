package script

// The answers of the scripts.
const (
	Ours     = 1
	Kept     = 2  // kept for its minimum hold: released before, or else as Other
	Unqueued = 3  // the waiter is not in the queue
	More     = 4  // done, but more entries come before the next live one than one script examines
	Full     = 5  // the queue is full, or the limit of tasks in flight is reached
	Young    = 6  // the server was started too recently
	Shared   = 7  // others read
	Ungiven  = 8  // the fencing token was never given
	Forced   = 9  // the hold is marked to end by force: a release has released it, others have changed nothing
	Other    = 0  // held by others; not the caller's
	Foreign  = -1 // the key has another kind or mode, or is not a lock
)

// MayGoOn reports whether a release may have left its hand-off unfinished.
func MayGoOn(reply any) bool { return reply == int64(More) || reply == int64(Forced) }

// IsOurs reports whether a release or a renewal found its hold.
func IsOurs(reply any) bool {
	return reply == int64(Ours) || reply == int64(Kept) || reply == int64(More)
}
