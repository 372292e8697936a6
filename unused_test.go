package relock

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/scripttest"
	"github.com/relock-go/relock/internal/testkit"
)

// What was granted to nobody is not kept for its minimum hold.
func TestGrantAfterItsLeaseIsNotKept(t *testing.T) {
	t.Parallel()
	long := WithMinHold(3 * time.Hour) // the grant looks as if it had taken one
	for name, newLock := range map[string]func(*Client) anyLock{
		"RedisLock":       func(c *Client) anyLock { return NewRedisLock(cellKey, c, long) },
		"RedisLock, fair": func(c *Client) anyLock { return NewRedisLock(cellKey, c, long, WithFair()) },
		"ReentrantLock":   func(c *Client) anyLock { return NewReentrantLock(cellKey, c, long) },
		"MultiLock":       func(c *Client) anyLock { return NewMultiLock([]string{cellKey, "b"}, c, long) },
		"MultiLock, on by one": func(c *Client) anyLock {
			c.engine.OneByOne.Store(true)
			return NewMultiLock([]string{cellKey, "b"}, c, long)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCell(t, newFaultServer(t), WithCommandTimeout(cellPatience))
			lock := newLock(c.client)
			c.lateAnswers(1)
			require.ErrorIs(t, lock.TryLock(t.Context()), lease.ErrLate)
			testkit.Eventually(t, cleanWithin, func() bool { return pttl(t, c.server, c.client, cellKey) == scripttest.Absent }, "it is kept for nobody")
			require.NoError(t, lock.TryLock(t.Context()))
			require.NoError(t, lock.Unlock(t.Context()))
			require.Greater(t, pttl(t, c.server, c.client, cellKey), 2*time.Hour, "what was had is kept")
		})
	}
}

// So is what an object gets while a hold of its was lost and not unlocked.
func TestGrantThatTheObjectCannotTakeIsNotKept(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	for name, newLock := range map[string]func(*Client) (anyLock, func() bool){
		"RedisLock": func(c *Client) (anyLock, func() bool) {
			l := NewRedisLock("k", c, WithBlock(), WithMinHold(time.Minute))
			return l, l.plain.IsAwaited
		},
		"MultiLock": func(c *Client) (anyLock, func() bool) {
			l := NewMultiLock([]string{"k", "l"}, c, WithBlock(), WithMinHold(time.Minute))
			return l, l.multi.IsAwaited
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newTestClient(t, s)
			lock, isAwaited := newLock(c)
			require.NoError(t, lock.Lock(t.Context()))
			for _, l := range c.engine.Leases() {
				l.Lose(ErrLockLost)
			}
			s.Do(t, "DEL", keyOf(c, "k"), keyOf(c, "l"))
			waiting := testkit.Async(t, func() error { return lock.Lock(t.Context()) })
			testkit.Eventually(t, testkit.Patience, isAwaited, "it has got the key, and cannot take it")
			testkit.Eventually(t, cleanWithin, func() bool { return pttl(t, s, c, "k") == scripttest.Absent }, "it is given back")
			require.ErrorIs(t, lock.Unlock(t.Context()), ErrLockLost)
			require.NoError(t, testkit.ResultWithin(t, waiting, testkit.Patience))
			require.NoError(t, lock.Unlock(t.Context()))
		})
	}
}

// A hold whose maximum is over when the answer comes is granted to nobody.
func TestGrantAfterItsMaximumHold(t *testing.T) {
	t.Parallel()
	short := WithMaxHold(50 * time.Millisecond)
	for name, newLock := range map[string]func(*Client) anyLock{
		"RedisLock":       func(c *Client) anyLock { return NewRedisLock(cellKey, c, short) },
		"RedisLock, fair": func(c *Client) anyLock { return NewRedisLock(cellKey, c, short, WithFair()) },
		"ReentrantLock":   func(c *Client) anyLock { return NewReentrantLock(cellKey, c, short) },
		"RWLock":          func(c *Client) anyLock { return NewRWLock(cellKey, c, short) },
		"MultiLock":       func(c *Client) anyLock { return NewMultiLock([]string{cellKey, "b"}, c, short) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCell(t, newFaultServer(t), WithCommandTimeout(cellPatience))
			c.proxy.On(faults.Any, 1, faults.Delay(100*time.Millisecond))
			err := newLock(c.client).TryLock(t.Context())
			require.ErrorIs(t, err, lease.ErrLate)
			require.True(t, IsRetryableErr(err))
			testkit.Eventually(t, cleanWithin, func() bool { return pttl(t, c.server, c.client, cellKey) == scripttest.Absent }, "it is given back")
		})
	}
}

// A level of which that is true leaves those around it as they are.
func TestLevelAfterItsMaximumHold(t *testing.T) {
	t.Parallel()
	c := newCell(t, newFaultServer(t), WithCommandTimeout(cellPatience))
	outer := owned("me", NewReentrantLock(cellKey, c.client))
	require.NoError(t, outer.Lock(t.Context()))
	c.proxy.On(faults.Any, 1, faults.Delay(100*time.Millisecond))
	inner := owned("me", NewReentrantLock(cellKey, c.client, WithMaxHold(50*time.Millisecond)))
	err := inner.Lock(t.Context())
	require.ErrorIs(t, err, lease.ErrLate)
	require.NotErrorIs(t, err, ErrLockLost, "the outer level is not")
	require.Equal(t, 1, outer.HoldCount(as(t, "me")))
	testkit.Eventually(t, cleanWithin, func() bool { return c.levels() == 1 }, "the server has one level")
	require.NoError(t, outer.Unlock(t.Context()))
	require.ErrorIs(t, outer.Unlock(t.Context()), ErrNotHeld)
}

// The token of a RedLock may be learnt by a node that grants the lock later, in place of one that fails after its grant. When
// too few learn it, no node is kept for the minimum hold.
func TestRedLockTokenOfANodeThatFails(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		third faults.Action
		err   error
	}{
		"the third one comes later": {faults.Delay(time.Second), nil},
		"the third one fails":       {faults.DropRequest, ErrQuorum},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newRedBench(t, newRedServers(t, 3))
			l := b.patient(WithFencing(), WithMinHold(redLease))
			b.meet(b.lock(b.clients))
			for _, p := range b.proxies[:2] {
				p.On(faults.Script(script.FenceRaise.SHA), faults.Every, faults.ErrorLine("ERR no"))
			}
			b.proxies[2].On(faults.Script(script.RedLockAcquire.Fenced.SHA), faults.Every, tt.third)
			err := l.TryLock(t.Context())
			if tt.err == nil {
				require.NoError(t, err)
				require.NoError(t, l.Unlock(t.Context()))
				return
			}
			require.ErrorIs(t, err, tt.err)
			b.requireFree(redLease / 2)
		})
	}
}

// Extend says which key has failed, also when others were left out because of it.
func TestMultiLockExtendNamesTheKey(t *testing.T) {
	t.Parallel()
	c := newCell(t, newFaultServer(t), WithCommandTimeout(cellPatience))
	var keys []string
	for n := range 100 {
		keys = append(keys, string(rune('a'+n%26))+time.Duration(n).String())
	}
	h, err := NewMultiLock(keys, c.client, WithWatchdog(time.Minute)).Acquire(t.Context()) // one key is not renewed
	require.NoError(t, err)
	bad := keyOf(c.client, keys[40])
	c.proxy.On(func(args []string) bool { return faults.Script(script.Renew.SHA)(args) && args[3] == bad }, faults.Every, faults.ErrorLine("LOADING soon"))
	for range 10 {
		err := h.Extend(t.Context(), 2*time.Minute)
		require.ErrorContains(t, err, "LOADING")
		require.ErrorContains(t, err, `"`+keys[40]+`"`)
		require.NotContains(t, err.Error(), "not begun")
	}
	require.NoError(t, h.Unlock(t.Context()))
}
