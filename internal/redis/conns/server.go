package conns

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/goroutines"
	"github.com/relock-go/relock/internal/redis/driver"
)

// server is what all connections to one server share: how they are opened, when
// they end, and what is known of the server.
type server struct {
	own     bool // the connections are not of a user's pool
	dial    func(context.Context) (redis.Conn, error)
	rotates bool // the credentials can change

	life           context.Context // cancelled by Close
	end            context.CancelFunc
	opening        context.Context // of dials; cancelled by retire and Close
	endOpening     context.CancelFunc
	dialTimeout    time.Duration
	commandTimeout time.Duration
	start          time.Time // broken counts from it
	// broken is when the last connection broke, in ns after start. Idle
	// connections that are older are not used again.
	broken   atomic.Int64
	answered atomic.Bool // the server has answered a request
	repeats  driver.Repeats
	tasks    goroutines.Group
}

// init sets what both sorts of pools have.
func (d *server) init(c *driver.Config) {
	d.dialTimeout, d.commandTimeout, d.start = c.DialTimeout, c.CommandTimeout, time.Now()
	d.life, d.end = context.WithCancel(context.Background())
	d.opening, d.endOpening = context.WithCancel(d.life)
}

// bound limits ctx by the dial timeout, and cancels it when the driver is
// closed or retired.
func (d *server) bound(ctx context.Context, limit time.Duration) (context.Context, func()) {
	ctx, cancel := context.WithTimeout(ctx, driver.Below(d.dialTimeout, limit))
	stop := context.AfterFunc(d.opening, cancel)
	return ctx, func() {
		stop()
		cancel()
	}
}

// noteBreak makes the connections stale that are idle now.
func (d *server) noteBreak() { d.broken.Store(int64(time.Since(d.start))) }

// isStale reports whether a connection that was last used then is older than a
// break.
func (d *server) isStale(lastUsed time.Time) bool {
	return int64(lastUsed.Sub(d.start)) <= d.broken.Load()
}

func (d *server) hasBreak(outcomes []driver.Result) bool {
	return slices.ContainsFunc(outcomes, func(o driver.Result) bool { return d.isBreak(o.Err) })
}

// orClosed replaces any error that may be due to Close by ErrClosed.
func (d *server) orClosed(err error) error {
	if err != nil && d.life.Err() != nil {
		return errs.ErrClosed
	}
	return err
}

// linkGrace is how much earlier an orderly timeout comes than a forced one.
const linkGrace = 50 * time.Millisecond

// withGrace returns d plus the grace, without overflow.
func withGrace(d time.Duration) time.Duration { return max(d, d+linkGrace) }
