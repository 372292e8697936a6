package relock

import (
	"time"

	"github.com/relock-go/relock/internal/lockspec"
)

// How long a hold lasts: its watchdog, which renews it, is in internal/lease.

// WithExpiry gives the hold a fixed lease that is never renewed: after d it is lost. It must be whole
// milliseconds, 10ms to 10 years, and excludes [WithWatchdog]. By default the lease is kept alive, see [WithWatchdog].
func WithExpiry(d time.Duration) LockOption {
	return lockOption{lockspec.OptExpiry, func(c *lockspec.Options) { c.Expiry = d }}
}

// WithWatchdog sets the lease that the client's watchdog keeps alive: it is renewed every third of it, and
// when the process dies the lock is free after at most d. It must be whole milliseconds, 10ms to 10 years. The
// default is 30s.
func WithWatchdog(d time.Duration) LockOption {
	return lockOption{lockspec.OptWatchdog, func(c *lockspec.Options) { c.Watchdog = d }}
}
