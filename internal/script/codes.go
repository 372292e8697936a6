package script

// The answers of the scripts.
const (
	OK              = 1
	Kept            = 2  // kept for its minimum hold: released before, or else as NotHeld
	Unqueued        = 3  // the waiter is not in the queue
	ScanLimit       = 4  // done, but more entries come before the next live one than one script examines
	Full            = 5  // the queue is full, or the limit of tasks in flight is reached
	RecentlyStarted = 6  // the server was started too recently
	Shared          = 7  // others read
	Ungiven         = 8  // the fencing token was never given
	Forced          = 9  // the hold is marked to end by force: a release has released it, others have changed nothing
	NotHeld         = 0  // held by others; not the caller's
	Conflict        = -1 // the key has another kind or mode, or is not a lock
)

// MayGoOn reports whether a release may have left its hand-off unfinished.
func MayGoOn(reply any) bool { return reply == int64(ScanLimit) || reply == int64(Forced) }

// IsOurs reports whether a release or a renewal found its hold.
func IsOurs(reply any) bool {
	return reply == int64(OK) || reply == int64(Kept) || reply == int64(ScanLimit)
}
