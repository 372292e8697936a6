package lease

import (
	"time"

	"github.com/relock-go/relock/internal/script"
)

// Protocol is how a kind of lock renews and releases what it holds in Redis.
type Protocol interface {
	Renew(lease time.Duration) script.Call
	// Release leaves levels behind; with none it gives the key back, after keep. seq is the number of this
	// change.
	Release(left Levels, seq int, keep time.Duration) script.Call
	// LockKey returns where the lock is in Redis, HoldID the id of the hold there.
	LockKey() string
	HoldID() string
}

// enterer is the protocol of a kind whose owner may take the lock again.
type enterer interface {
	// Enter goes to so many levels.
	Enter(l Levels, seq int, lease time.Duration) script.Call
}

// Levels is how many a hold has, and how many of them write, of a read/write lock.
type Levels struct{ All, Writes int }
