package locktest

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/scripttest"
)

const (
	AnswerLimit  = 800 * time.Millisecond // WithCommandTimeout, where an answer is waited for in vain
	CleanWithin  = time.Second            // a message that is lost or late leaves nothing behind for longer
	CellLease    = 10 * time.Second       // long enough that none ends and none is renewed within a cell
	CellPatience = 5 * time.Second        // for what must happen, at some time
	CellKey      = "lock"
)

// Cell is one client behind a proxy, and another one that is not.
type Cell struct {
	testing.TB
	Server        *redistest.Server
	Proxy         *faults.Proxy
	Client, Other *relock.Client
	Bench         *scripttest.Bench // of the lock
}

func NewCell(t testing.TB, s *redistest.Server, opts ...relock.ClientOption) *Cell {
	c := &Cell{TB: t, Server: s, Proxy: faults.Start(t, s.Network, s.Address)}
	behind := &redistest.Server{Network: c.Proxy.Network, Address: c.Proxy.Address}
	c.Client = NewTestClient(t, behind, append([]relock.ClientOption{relock.WithCommandTimeout(CellPatience), relock.WithWatchdog(CellLease)}, opts...)...)
	if rand.N(2) == 0 {
		t.Log("over the shared connection")
		Sharing(c.Client)
	}
	c.Other = Sibling(t, s, c.Client)
	c.Bench = scripttest.NewBench(t, s)
	c.Bench.Key = KeyOf(c.Client, CellKey)
	c.observe()
	return c
}

// NewFaultServer runs a server that knows the scripts, so that each request is sent once.
func NewFaultServer(t testing.TB) *redistest.Server { return Taught(t, redistest.Start(t)) }

func Taught(t testing.TB, s *redistest.Server) *redistest.Server {
	for _, script := range []*script.Script{
		script.Acquire, script.Renew, script.Release,
		script.ReentrantAcquire, script.ReentrantEnter, script.ReentrantRenew, script.ReentrantRelease,
		script.ReentrantTransfer, script.Try, script.Enqueue, script.Claim, script.Cancel, script.Poll,
		script.MultiAcquire, script.RedLockAcquire, script.RedLockRelease, script.RedLockUnwait, script.FenceRaise,
		script.Force, script.RWForce, script.Notice,
		script.RWTry, script.RWEnqueue, script.RWClaim, script.RWCancel, script.RWPoll, script.RWEnter, script.RWRenew, script.RWRelease,
	} {
		s.Do(t, "SCRIPT", "LOAD", script.Source)
	}
	return s
}

func (c *Cell) Await(done <-chan struct{}, what string) {
	c.Helper()
	select {
	case <-done:
	case <-time.After(CellPatience):
		require.FailNow(c, what)
	}
}

// reading is what the key held at some moment, and between which two times its expiry is.
type reading struct {
	scripttest.KeyState
	Earliest, Latest time.Time
}

func (c *Cell) Read() reading {
	c.Helper()
	before := time.Now()
	state := c.Bench.State()
	return reading{state, before.Add(state.TTL - scripttest.ClockGrain), time.Now().Add(state.TTL + scripttest.ClockGrain)}
}

// RequireUntouched checks that neither the content nor the expiry has changed.
func (c *Cell) RequireUntouched(before, after reading) {
	c.Helper()
	require.Equal(c, before.Content, after.Content)
	if content, ok := before.Content.(map[string]string); ok && scripttest.IsRW(content) {
		return // its entries, which decide, are as they were; a script that was held up sets the key's expiry later, and the next one back
	}
	require.False(c, after.Latest.Before(before.Earliest), "shortened")
	require.False(c, before.Latest.Before(after.Earliest), "lengthened")
}

// Levels is how many the server has: the count of a reentrant lock, and 1 of a plain one. A key that is kept after its release has none.
func (c *Cell) Levels() int {
	c.Helper()
	switch content := c.Bench.State().Content.(type) {
	case string:
		if !strings.HasPrefix(content, "relock/1|k|") {
			return 1
		}
	case map[string]string:
		if scripttest.IsRW(content) {
			return rwLevelsAt(c, c.Bench)
		}
		for field, value := range content {
			if strings.Contains(field, ":") {
				n, err := redis.Int([]byte(value), nil)
				require.NoError(c, err)
				return n
			}
		}
	}
	return 0
}

// RequireLevels waits until the server has as many levels as the client was told.
func (c *Cell) RequireLevels(told int) {
	c.Helper()
	c.WaitFor(CleanWithin, func() bool { return c.Levels() == told }, fmt.Sprintf("the server does not come to %d levels", told))
}

// WaitFor is eventually, on the goroutine of the test.
func (c *Cell) WaitFor(limit time.Duration, ok func() bool, what string) {
	c.Helper()
	for deadline := time.Now().Add(limit); !ok(); time.Sleep(4 * time.Millisecond) {
		require.True(c, time.Now().Before(deadline), what)
	}
}

// observe looks at the cell until its end, again and again: whatever happens, nobody believes in the lock for longer than the server has
// it, no two do, and the key has an expiry.
func (c *Cell) observe() {
	conn, over := c.Server.Dial(c), make(chan struct{})
	var group sync.WaitGroup
	group.Go(func() {
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				c.look(conn)
			case <-over:
				return
			}
		}
	})
	c.Cleanup(func() {
		close(over)
		group.Wait()
		_ = conn.Close()
	})
}

func (c *Cell) look(conn redis.Conn) {
	mine, others := Believed(c.Client), Believed(c.Other)
	ms, err := redis.Int64(conn.Do("PTTL", c.Bench.Key))
	latest := time.Now().Add(time.Duration(ms)*time.Millisecond + scripttest.ClockGrain)
	switch {
	case err != nil:
		c.Errorf("observer: %v", err)
	case ms == -1:
		c.Errorf("the key has no expiry")
	case len(mine) > 0 && len(others) > 0 && mine[0].live():
		c.Errorf("two believe in the lock")
	}
	for _, b := range append(mine, others...) {
		if (ms < 0 || b.until.After(latest)) && b.live() {
			c.Errorf("believed until %v, the server has it until %v (%d ms)", b.until, latest, ms)
		}
	}
}

// belief is until when a client believes in a lease, as it was at some moment.
type belief struct {
	lease *lease.Lease
	until time.Time
}

// Believed are the live leases of the cell's lock. Their mutexes come before the client's.
func Believed(c *relock.Client) (all []belief) {
	for _, l := range Engine(c).Leases() {
		if until := believedUntil(l); l.State().Key == CellKey && !until.IsZero() {
			all = append(all, belief{l, until})
		}
	}
	return all
}

// live says whether the lease is still believed in.
func (b belief) live() bool { return !believedUntil(b.lease).IsZero() }

// believedUntil is what ValidUntil tells of a lease, without the loss that it may declare.
func believedUntil(l *lease.Lease) time.Time {
	s := l.State()
	if s.Err != nil || time.Until(s.ValidUntil) <= 0 {
		return time.Time{}
	}
	return s.ValidUntil
}
