package locktest

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/test/faults"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

// Limits of a cell, its lease and its lock.
const (
	AnswerLimit   = 800 * time.Millisecond // WithCommandTimeout, if no answer comes
	CleanWithin   = time.Second            // a lost or late message leaves nothing behind for longer
	FaultLease    = 10 * time.Second       // no lease ends or is renewed within a cell
	FaultPatience = 5 * time.Second        // for what must happen at some time
	FaultKey      = "lock"
)

// FaultBench is one client behind a proxy, and another one that is not.
type FaultBench struct {
	testing.TB
	Server        *redistest.Server
	Proxy         *faults.Proxy
	Client, Other *relock.Client
	Key           string // of the lock
	conn          redis.Conn
}

// NewFaultBench returns a cell. Until it ends, it is observed: see observe.
func NewFaultBench(t testing.TB, s *redistest.Server, opts ...relock.ClientOption) *FaultBench {
	c, proxy := Behind(t, s, cellOptions(opts)...)
	if rand.N(2) == 0 {
		t.Log("over the shared connection")
		Sharing(t, c)
	}
	return newFaultBench(t, s, c, proxy)
}

// NewRoutedBench is NewFaultBench with a client that finds the server by a
// topology of two.
func NewRoutedBench(t testing.TB, s *redistest.Server, opts ...relock.ClientOption) *FaultBench {
	proxy := faults.Start(t, s.Network, s.Address)
	return newFaultBench(t, s, Routed(t, ServerOf(proxy), s, cellOptions(opts)...), proxy)
}

func cellOptions(opts []relock.ClientOption) []relock.ClientOption {
	return append([]relock.ClientOption{relock.WithCommandTimeout(FaultPatience), relock.WithWatchdog(FaultLease)},
		opts...)
}

// newFaultBench adds the other client, and begins to observe the cell.
func newFaultBench(t testing.TB, s *redistest.Server, client *relock.Client, proxy *faults.Proxy) *FaultBench {
	c := &FaultBench{t, s, proxy, client, Sibling(t, s, client), KeyOf(client, FaultKey), s.Dial(t)}
	t.Cleanup(func() { _ = c.conn.Close() })
	c.observe()
	return c
}

// NewServerWithScripts starts a server that knows the scripts, so that each
// request is sent once.
func NewServerWithScripts(t testing.TB) *redistest.Server { return WithScripts(t, redistest.Start(t)) }

// WithScripts loads the scripts into the server.
func WithScripts(t testing.TB, s *redistest.Server) *redistest.Server {
	for _, script := range []*script.Script{
		script.Acquire, script.Renew, script.Release, script.Transfer,
		script.ReentrantAcquire, script.ReentrantEnter, script.ReentrantRenew, script.ReentrantRelease,
		script.ReentrantTransfer, script.Try, script.Enqueue, script.Claim, script.Cancel, script.Poll,
		script.MultiAcquire, script.RedLockAcquire, script.RedLockRelease, script.RedLockUnwait, script.FenceRaise,
		script.End, script.RWEnd, script.SemaphoreEnd, script.Notice,
		script.RWTry, script.RWEnqueue, script.RWClaim, script.RWCancel, script.RWPoll, script.RWEnter, script.RWRenew,
		script.RWRelease,
	} {
		s.Do(t, "SCRIPT", "LOAD", script.Source)
	}
	return s
}

// Take acquires the cell's lock once more.
func (c *FaultBench) Take(kind string, opts ...relock.LockOption) relock.Hold {
	c.Helper()
	return Take(c, Kinds[kind](FaultKey, c.Client, opts...).Acquire)
}

// Await waits until done is closed.
func (c *FaultBench) Await(done <-chan struct{}, what string) {
	c.Helper()
	testkit.Next(c, done, what)
}

// WaitFor is EventuallyWithin with fewer checks.
func (c *FaultBench) WaitFor(promise time.Duration, ok func() bool, what string) {
	c.Helper()
	EventuallyWithin(c, promise, func() bool {
		if ok() {
			return true
		}
		time.Sleep(3 * time.Millisecond)
		return false
	}, what)
}

// State returns what the key holds now.
func (c *FaultBench) State() KeyState {
	c.Helper()
	return StateOf(c, c.conn, c.Key)
}

// Reading is what the key held at some moment, and between which times its
// expiry is.
type Reading struct {
	KeyState
	Earliest, Latest time.Time
}

// Read returns what the key holds now.
func (c *FaultBench) Read() Reading {
	c.Helper()
	before := time.Now()
	state := c.State()
	return Reading{state, before.Add(state.TTL - ClockGrain), time.Now().Add(state.TTL + ClockGrain)}
}

// RequireUntouched checks that neither the content nor the expiry has changed.
func (c *FaultBench) RequireUntouched(before, after Reading) {
	c.Helper()
	require.Equal(c, before.Content, after.Content)
	if content, ok := before.Content.(map[string]string); ok && IsRW(content) {
		// Its entries decide, and are unchanged. A delayed script sets the
		// key's expiry later, and the next one sets it back.
		return
	}
	require.False(c, after.Latest.Before(before.Earliest), "shortened")
	require.False(c, before.Latest.Before(after.Earliest), "lengthened")
}

// Levels returns how many levels the server has: the count of a reentrant lock,
// and 1 of a plain one. A key that is kept after its release has none.
func (c *FaultBench) Levels() int {
	c.Helper()
	switch content := c.State().Content.(type) {
	case string:
		if !strings.HasPrefix(content, "relock/1|k|") {
			return 1
		}
	case map[string]string:
		if IsRW(content) {
			return c.rwLevels()
		}
		return levelsIn(c, content)
	}
	return 0
}

// rwLevels returns how many levels the server has of a read/write lock, of all
// holds.
func (c *FaultBench) rwLevels() (n int) {
	c.Helper()
	for _, e := range ReadRW(c, c.conn, c.Key) {
		var reads, writes int
		if e.Kind != "v" {
			_, err := fmt.Sscanf(e.Counts, "%d:%d", &reads, &writes)
			require.NoError(c, err, "%v", e)
			require.Equal(c, e.Kind == "w", writes > 0, "%v", e)
		}
		n += reads + writes
	}
	return n
}

// RequireLevels waits until the server has as many levels as the client was
// granted.
func (c *FaultBench) RequireLevels(n int) {
	c.Helper()
	c.WaitFor(CleanWithin, func() bool { return c.Levels() == n }, fmt.Sprintf("the server does not come to %d levels", n))
}
