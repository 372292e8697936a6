package etcdlock

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/holds"
)

// An Option configures a [Locker]. A nil one is [relock.ErrInvalid].
type Option func(*config)

const (
	defaultTTL    = 10 * time.Second
	defaultPrefix = "relock/"
	maxPrefix     = 1024
	maxKey        = 1024
	maxOwner      = 256
	minExtend     = 10 * time.Millisecond
	maxTTL        = 9_000_000_000 * time.Second // the longest that etcd accepts
)

// config has the settings of a Locker.
type config struct {
	fair     bool
	ttl      time.Duration
	prefix   string
	logger   *slog.Logger
	observer relock.Observer // has no hooks by default
	mistakes []error
}

func newConfig(opts []Option) config {
	c := config{ttl: defaultTTL, prefix: defaultPrefix, logger: slog.New(slog.DiscardHandler)}
	for i, opt := range opts {
		if opt == nil {
			c.addMistake("opts[%d]: Option is nil", i)
			continue
		}
		opt(&c)
	}
	switch {
	case c.ttl < time.Second || c.ttl%time.Second != 0:
		c.addMistake("WithTTL: %v is not a whole number of seconds, 1 or more", c.ttl)
	case c.ttl > maxTTL:
		c.addMistake("WithTTL: %v is above %v", c.ttl, maxTTL)
	}
	if len(c.prefix) > maxPrefix {
		c.addMistake("WithPrefix: %d bytes are above %d", len(c.prefix), maxPrefix)
	}
	if c.logger == nil {
		c.addMistake("WithLogger: is nil")
	}
	return c
}

func (c *config) addMistake(format string, args ...any) {
	c.mistakes = append(c.mistakes, fmt.Errorf(format, args...))
}

func (c *config) err() error {
	if len(c.mistakes) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %w", relock.ErrInvalid, errors.Join(c.mistakes...))
}

// WithFair grants a lock in the order in which calls arrive at etcd, over all
// processes. TryLock fails while another call waits. Lockers with the same
// prefix must agree: a name that is in use as an unfair lock is
// [relock.ErrKeyConflict]. By default, the first call after an unlock gets the
// lock.
//
// Calls of one Locker for one name arrive one after another, in their order.
// While one is under way, calls of other Lockers may overtake those behind it.
func WithFair() Option { return func(c *config) { c.fair = true } }

// WithTTL sets how long a lock stays taken after its last renewal, in whole
// seconds. etcd grants at least one and a half times its election timeout, so
// 2s by default. The TTL that was granted counts. The default is 10s.
func WithTTL(ttl time.Duration) Option { return func(c *config) { c.ttl = ttl } }

// WithPrefix sets what all keys of the Locker begin with: 1,024 bytes at most,
// and no beginning of another prefix that is in use. The default is "relock/".
func WithPrefix(prefix string) Option { return func(c *config) { c.prefix = prefix } }

// WithLogger sets where events of the background go: lost leases, waits without
// a server, waits for a lock that the Locker itself holds, releases that are
// not confirmed, campaigns of a [relock.Leader] that fail, servers that are too
// old. By default they go nowhere.
func WithLogger(logger *slog.Logger) Option { return func(c *config) { c.logger = logger } }

// WithObserver notifies o of what the locks of the Locker do, as "etcd". Given
// more than once, all are notified. RenewDone has no key: one renewal is for
// all locks under a lease. There is none by default.
func WithObserver(o relock.Observer) Option {
	return func(c *config) { c.observer = c.observer.And(o) }
}

// kind is the kind of the locks in the reports to observers.
const kind = "etcd"

// holdDone returns the function that reports the end of a hold to the observer.
// It returns nil if there is no hook for it.
func (c *config) holdDone() func(context.Context, holds.End) {
	if c.observer.HoldDone == nil {
		return nil
	}
	return func(ctx context.Context, e holds.End) {
		done := relock.HoldDone{Key: e.Key, Kind: e.Kind, Start: e.Start, End: e.End, Err: wrap(e.Op, e.Key, e.Err)}
		c.observer.HoldDone(ctx, done)
	}
}
