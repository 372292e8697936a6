package lease_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/locktest"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/scripttest"
	"github.com/relock-go/relock/internal/testkit"
)

// What was granted to nobody is not kept for its minimum hold.
func TestGrantAfterItsLeaseIsNotKept(t *testing.T) {
	t.Parallel()
	long := relock.WithMinHold(3 * time.Hour) // the grant looks as if it had taken one
	for name, newLock := range map[string]func(*relock.Client) locktest.AnyLock{
		"RedisLock": func(c *relock.Client) locktest.AnyLock { return relock.NewRedisLock(locktest.CellKey, c, long) },
		"RedisLock, fair": func(c *relock.Client) locktest.AnyLock {
			return relock.NewRedisLock(locktest.CellKey, c, long, relock.WithFair())
		},
		"ReentrantLock": func(c *relock.Client) locktest.AnyLock { return relock.NewReentrantLock(locktest.CellKey, c, long) },
		"MultiLock": func(c *relock.Client) locktest.AnyLock {
			return relock.NewMultiLock([]string{locktest.CellKey, "b"}, c, long)
		},
		"MultiLock, on by one": func(c *relock.Client) locktest.AnyLock {
			locktest.Engine(c).OneByOne.Store(true)
			return relock.NewMultiLock([]string{locktest.CellKey, "b"}, c, long)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := locktest.NewCell(t, locktest.NewFaultServer(t), relock.WithCommandTimeout(locktest.CellPatience))
			lock := newLock(c.Client)
			c.LateAnswers(1)
			require.ErrorIs(t, lock.TryLock(t.Context()), lease.ErrLate)
			testkit.Eventually(t, locktest.CleanWithin, func() bool { return locktest.Pttl(t, c.Server, c.Client, locktest.CellKey) == scripttest.Absent }, "it is kept for nobody")
			require.NoError(t, lock.TryLock(t.Context()))
			require.NoError(t, lock.Unlock(t.Context()))
			require.Greater(t, locktest.Pttl(t, c.Server, c.Client, locktest.CellKey), 2*time.Hour, "what was had is kept")
		})
	}
}

// So is what an object gets while a hold of its was lost and not unlocked.
func TestGrantThatTheObjectCannotTakeIsNotKept(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	for name, newLock := range map[string]func(*relock.Client) (locktest.AnyLock, func() bool){
		"RedisLock": func(c *relock.Client) (locktest.AnyLock, func() bool) {
			l := relock.NewRedisLock("k", c, relock.WithBlock(), relock.WithMinHold(time.Minute))
			return l, locktest.Plain(l).IsAwaited
		},
		"MultiLock": func(c *relock.Client) (locktest.AnyLock, func() bool) {
			l := relock.NewMultiLock([]string{"k", "l"}, c, relock.WithBlock(), relock.WithMinHold(time.Minute))
			return l, locktest.Multi(l).IsAwaited
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := locktest.NewTestClient(t, s)
			lock, isAwaited := newLock(c)
			require.NoError(t, lock.Lock(t.Context()))
			for _, l := range locktest.Engine(c).Leases() {
				l.Lose(relock.ErrLockLost)
			}
			s.Do(t, "DEL", locktest.KeyOf(c, "k"), locktest.KeyOf(c, "l"))
			waiting := testkit.Async(t, func() error { return lock.Lock(t.Context()) })
			testkit.Eventually(t, testkit.Patience, isAwaited, "it has got the key, and cannot take it")
			testkit.Eventually(t, locktest.CleanWithin, func() bool { return locktest.Pttl(t, s, c, "k") == scripttest.Absent }, "it is given back")
			require.ErrorIs(t, lock.Unlock(t.Context()), relock.ErrLockLost)
			require.NoError(t, testkit.ResultWithin(t, waiting, testkit.Patience))
			require.NoError(t, lock.Unlock(t.Context()))
		})
	}
}

// A hold whose maximum is over when the answer comes is granted to nobody.
func TestGrantAfterItsMaximumHold(t *testing.T) {
	t.Parallel()
	short := relock.WithMaxHold(50 * time.Millisecond)
	for name, newLock := range map[string]func(*relock.Client) locktest.AnyLock{
		"RedisLock": func(c *relock.Client) locktest.AnyLock { return relock.NewRedisLock(locktest.CellKey, c, short) },
		"RedisLock, fair": func(c *relock.Client) locktest.AnyLock {
			return relock.NewRedisLock(locktest.CellKey, c, short, relock.WithFair())
		},
		"ReentrantLock": func(c *relock.Client) locktest.AnyLock { return relock.NewReentrantLock(locktest.CellKey, c, short) },
		"RWLock":        func(c *relock.Client) locktest.AnyLock { return relock.NewRWLock(locktest.CellKey, c, short) },
		"MultiLock": func(c *relock.Client) locktest.AnyLock {
			return relock.NewMultiLock([]string{locktest.CellKey, "b"}, c, short)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := locktest.NewCell(t, locktest.NewFaultServer(t), relock.WithCommandTimeout(locktest.CellPatience))
			c.Proxy.On(faults.Any, 1, faults.Delay(100*time.Millisecond))
			err := newLock(c.Client).TryLock(t.Context())
			require.ErrorIs(t, err, lease.ErrLate)
			require.True(t, relock.IsRetryableErr(err))
			testkit.Eventually(t, locktest.CleanWithin, func() bool { return locktest.Pttl(t, c.Server, c.Client, locktest.CellKey) == scripttest.Absent }, "it is given back")
		})
	}
}

// A level of which that is true leaves those around it as they are.
func TestLevelAfterItsMaximumHold(t *testing.T) {
	t.Parallel()
	c := locktest.NewCell(t, locktest.NewFaultServer(t), relock.WithCommandTimeout(locktest.CellPatience))
	outer := relock.NewReentrantLock(locktest.CellKey, c.Client, relock.WithOwner("me"))
	require.NoError(t, outer.Lock(t.Context()))
	c.Proxy.On(faults.Any, 1, faults.Delay(100*time.Millisecond))
	inner := relock.NewReentrantLock(locktest.CellKey, c.Client, relock.WithOwner("me"), relock.WithMaxHold(50*time.Millisecond))
	err := inner.Lock(t.Context())
	require.ErrorIs(t, err, lease.ErrLate)
	require.NotErrorIs(t, err, relock.ErrLockLost, "the outer level is not")
	require.Equal(t, 1, outer.HoldCount(t.Context()))
	testkit.Eventually(t, locktest.CleanWithin, func() bool { return c.Levels() == 1 }, "the server has one level")
	require.NoError(t, outer.Unlock(t.Context()))
	require.ErrorIs(t, outer.Unlock(t.Context()), relock.ErrNotHeld)
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
		"the third one fails":       {faults.DropRequest, relock.ErrQuorum},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := locktest.NewRedBench(t, locktest.NewRedServers(t, 3))
			l := b.Patient(relock.WithFencing(), relock.WithMinHold(locktest.RedLease))
			b.Meet(b.Lock(b.Clients))
			for _, p := range b.Proxies[:2] {
				p.On(faults.Script(script.FenceRaise.SHA), faults.Every, faults.ErrorLine("ERR no"))
			}
			b.Proxies[2].On(faults.Script(script.RedLockAcquire.Fenced.SHA), faults.Every, tt.third)
			err := l.TryLock(t.Context())
			if tt.err == nil {
				require.NoError(t, err)
				require.NoError(t, l.Unlock(t.Context()))
				return
			}
			require.ErrorIs(t, err, tt.err)
			b.RequireFree(locktest.RedLease / 2)
		})
	}
}

// Extend says which key has failed, also when others were left out because of it.
func TestMultiLockExtendNamesTheKey(t *testing.T) {
	t.Parallel()
	c := locktest.NewCell(t, locktest.NewFaultServer(t), relock.WithCommandTimeout(locktest.CellPatience))
	var keys []string
	for n := range 100 {
		keys = append(keys, string(rune('a'+n%26))+time.Duration(n).String())
	}
	h, err := relock.NewMultiLock(keys, c.Client, relock.WithWatchdog(time.Minute)).Acquire(t.Context()) // one key is not renewed
	require.NoError(t, err)
	bad := locktest.KeyOf(c.Client, keys[40])
	c.Proxy.On(func(args []string) bool { return faults.Script(script.Renew.SHA)(args) && args[3] == bad }, faults.Every, faults.ErrorLine("LOADING soon"))
	for range 10 {
		err := h.Extend(t.Context(), 2*time.Minute)
		require.ErrorContains(t, err, "LOADING")
		require.ErrorContains(t, err, `"`+keys[40]+`"`)
		require.NotContains(t, err.Error(), "not begun")
	}
	require.NoError(t, h.Unlock(t.Context()))
}
