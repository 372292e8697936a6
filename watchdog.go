package relock

import (
	"time"

	"github.com/relock-go/relock/internal/lockspec"
)

// The options for the lease of a hold. The watchdog is in internal/lease.

// WithExpiry gives the hold a fixed lease that is never renewed. The hold is
// lost after d. If d is above a second, the client asks every third of d, each
// minute at least, whether the hold is there, and not ended by
// [Client.ForceUnlock]. d must be whole milliseconds, 10ms to 10 years.
// WithExpiry excludes [WithWatchdog]. By default the lease is renewed, see
// [WithWatchdog].
func WithExpiry(d time.Duration) LockOption {
	return lockOption{lockspec.OptExpiry, func(c *lockspec.Options) { c.Expiry = d }}
}

// WithWatchdog sets the lease that the client's watchdog renews. d is the
// lease, not the interval: it is renewed every third of d, each minute at
// least. If the process dies, the lock is free after at most d, or when a
// longer [WithMinHold] is over. d must be whole milliseconds, 10ms to 10 years.
// The default is 30s.
func WithWatchdog(d time.Duration) LockOption {
	return lockOption{lockspec.OptWatchdog, func(c *lockspec.Options) { c.Watchdog = d }}
}
