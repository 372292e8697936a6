package lease

import (
	"context"
	"log/slog"
	"runtime/pprof"
	"sync/atomic"
	"time"

	"github.com/relock-go/relock/internal/background"
	"github.com/relock-go/relock/internal/goroutines"
	"github.com/relock-go/relock/internal/holds"
	"github.com/relock-go/relock/internal/localwait"
	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/outage"
	"github.com/relock-go/relock/internal/redis/driver"
	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/suspend"
	"github.com/relock-go/relock/internal/validity"
	"github.com/relock-go/relock/internal/waitqueue"
)

// client is what the leases of one client share: its settings, books, workers
// and queues.
type client struct {
	Config
	*validity.Books

	Retrier *background.Retrier
	Queue   *waitqueue.Queue
	Local   *LocalWaiters
	Tasks   *goroutines.Group
	Waiting atomic.Int64 // calls that wait at the moment
	Losses  atomic.Int64 // of leases that had a hold
	Outages *outage.Log
	Suspect Suspect // of package queue

	// OneByOne is set once the server has refused a request for keys of several
	// slots.
	OneByOne atomic.Bool

	Life context.Context // cancelled by Close
}

// Config is what a manager needs from its client.
type Config struct {
	Identity       lockspec.Identity
	Prefix         string // of lock names, in Redis
	Driver         driver.Driver
	Logger         *slog.Logger
	DialTimeout    time.Duration
	CommandTimeout time.Duration
	ReleaseOnClose bool
	Hooks          Hooks
	Limits         Limits
}

// Limits are those of a client that no option sets.
type Limits struct {
	Notice   time.Duration // how long a refused holder may take to read the reason
	HandOffs localwait.Budget
}

// DefaultLimits returns the limits of a client.
func DefaultLimits() Limits {
	return Limits{Notice: 200 * time.Millisecond, HandOffs: localwait.DefaultBudget()}
}

// Hooks are the functions of the observer that the manager calls, and the
// profile that it puts holds into. Each may be nil.
type Hooks struct {
	HoldDone  func(context.Context, holds.End)
	RenewDone func(context.Context, holds.End)
	Profile   *pprof.Profile
}

// report returns the report of a hold that was granted at start.
func (h *Hooks) report(ctx context.Context, key, kind string, start time.Time) *holds.Report {
	return holds.NewReport(ctx, h.HoldDone, h.Profile, key, kind, start)
}

// newBooks returns the books of the client.
func (c *client) newBooks(clocks suspend.Clocks) *validity.Books {
	return validity.New(validity.Config{
		Driver: c.Driver, Logger: c.Logger, Life: c.Life, Tasks: c.Tasks, RenewDone: c.Hooks.RenewDone, Clocks: clocks,
	})
}

// startUnlessClosed runs f on a goroutine of the client, until Close begins.
func (c *client) startUnlessClosed(f func()) {
	if c.Life.Err() == nil {
		c.Tasks.Start(f)
	}
}

// Eval runs a script of a lock. It may send the script twice, which all of
// these scripts allow.
func (c *client) Eval(ctx context.Context, limit driver.Limits, s script.Call) (driver.Result, script.Indeterminate) {
	return script.Run(ctx, c.Driver, limit, s, nil)
}

// RedisKey returns the key in Redis of the lock with this name.
func (c *client) RedisKey(key string) string { return c.Prefix + "{" + key + "}" }

// NodesChanged is called when masters have changed. The nodes that have gone
// are not to be used any more. A new master may lack what the old one has
// answered, and one that was replaced for a while has lost it.
func (c *client) NodesChanged(gone []driver.Node) {
	c.Retrier.Retire(gone)
	c.Retrier.RunNow() // waiters wait for the releases
	c.Books.NodesChanged(gone)
	c.Queue.NodesChanged(gone)
}

// Ask sends a script that acquires a lock or extends a lease, and waits for the
// replicas that the settings require.
func (c *client) Ask(
	ctx context.Context, settings *lockspec.Spec, s script.Call,
) (driver.Result, script.Indeterminate) {
	c.CheckSuspended(time.Now())
	return script.Run(ctx, c.Driver, driver.ForLease(settings.Lease), s, settings.Ack())
}

// AskAll is Ask for scripts of several keys, which are sent together. The
// settings require no replicas.
func (c *client) AskAll(
	ctx context.Context, settings *lockspec.Spec, calls []script.Call,
) ([]driver.Result, []script.Indeterminate) {
	c.CheckSuspended(time.Now())
	return script.RunAll(ctx, c.Driver, driver.ForLease(settings.Lease), calls)
}
