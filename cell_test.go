package relock

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/scripttest"
)

const (
	answerLimit  = 800 * time.Millisecond // WithCommandTimeout, where an answer is waited for in vain
	cleanWithin  = time.Second            // a message that is lost or late leaves nothing behind for longer
	cellLease    = 10 * time.Second       // long enough that none ends and none is renewed within a cell
	cellPatience = 5 * time.Second        // for what must happen, at some time
	cellKey      = "lock"
)

// cell is one client behind a proxy, and another one that is not.
type cell struct {
	testing.TB
	server        *redistest.Server
	proxy         *faults.Proxy
	client, other *Client
	bench         *scripttest.Bench // of the lock
}

func newCell(t testing.TB, s *redistest.Server, opts ...ClientOption) *cell {
	c := &cell{TB: t, server: s, proxy: faults.Start(t, s.Network, s.Address)}
	behind := &redistest.Server{Network: c.proxy.Network, Address: c.proxy.Address}
	c.client = newTestClient(t, behind, append([]ClientOption{WithCommandTimeout(cellPatience), WithWatchdog(cellLease)}, opts...)...)
	if rand.N(2) == 0 {
		t.Log("over the shared connection")
		sharing(c.client)
	}
	c.other = sibling(t, s, c.client)
	c.bench = scripttest.NewBench(t, s)
	c.bench.Key = keyOf(c.client, cellKey)
	c.observe()
	return c
}

// newFaultServer runs a server that knows the scripts, so that each request is sent once.
func newFaultServer(t testing.TB) *redistest.Server { return taught(t, redistest.Start(t)) }

func taught(t testing.TB, s *redistest.Server) *redistest.Server {
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

func (c *cell) await(done <-chan struct{}, what string) {
	c.Helper()
	select {
	case <-done:
	case <-time.After(cellPatience):
		require.FailNow(c, what)
	}
}

// reading is what the key held at some moment, and between which two times its expiry is.
type reading struct {
	scripttest.KeyState
	earliest, latest time.Time
}

func (c *cell) read() reading {
	c.Helper()
	before := time.Now()
	state := c.bench.State()
	return reading{state, before.Add(state.TTL - scripttest.ClockGrain), time.Now().Add(state.TTL + scripttest.ClockGrain)}
}

// requireUntouched checks that neither the content nor the expiry has changed.
func (c *cell) requireUntouched(before, after reading) {
	c.Helper()
	require.Equal(c, before.Content, after.Content)
	if content, ok := before.Content.(map[string]string); ok && scripttest.IsRW(content) {
		return // its entries, which decide, are as they were; a script that was held up sets the key's expiry later, and the next one back
	}
	require.False(c, after.latest.Before(before.earliest), "shortened")
	require.False(c, before.latest.Before(after.earliest), "lengthened")
}

// levels is how many the server has: the count of a reentrant lock, and 1 of a plain one. A key that is kept after its release has none.
func (c *cell) levels() int {
	c.Helper()
	switch content := c.bench.State().Content.(type) {
	case string:
		if !strings.HasPrefix(content, "relock/1|k|") {
			return 1
		}
	case map[string]string:
		if scripttest.IsRW(content) {
			return rwLevelsAt(c, c.bench)
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

// requireLevels waits until the server has as many levels as the client was told.
func (c *cell) requireLevels(told int) {
	c.Helper()
	c.waitFor(cleanWithin, func() bool { return c.levels() == told }, fmt.Sprintf("the server does not come to %d levels", told))
}

// waitFor is eventually, on the goroutine of the test.
func (c *cell) waitFor(limit time.Duration, ok func() bool, what string) {
	c.Helper()
	for deadline := time.Now().Add(limit); !ok(); time.Sleep(4 * time.Millisecond) {
		require.True(c, time.Now().Before(deadline), what)
	}
}

// observe looks at the cell until its end, again and again: whatever happens, nobody believes in the lock for longer than the server has
// it, no two do, and the key has an expiry.
func (c *cell) observe() {
	conn, over := c.server.Dial(c), make(chan struct{})
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

func (c *cell) look(conn redis.Conn) {
	mine, others := believed(c.client), believed(c.other)
	ms, err := redis.Int64(conn.Do("PTTL", c.bench.Key))
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

// believed are the live leases of the cell's lock. Their mutexes come before the client's.
func believed(c *Client) (all []belief) {
	for _, l := range c.engine.Leases() {
		if until := believedUntil(l); l.State().Key == cellKey && !until.IsZero() {
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
