package test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/relock-go/relock"
	etcdlock "github.com/relock-go/relock/etcd"
	"github.com/relock-go/relock/internal/test/testkit"
)

// lostAnswers are faults of a request that takes a lock, by what happens to it.
var lostAnswers = map[string]action{
	"refused": refuse, "executed, and the connection cut": dropAnswer, "executed, and no answer": silence,
}

// A TryLock whose answer is lost fails, and leaves nothing: another caller gets
// the lock within a second.
func TestTryLockWithoutAnAnswerLeavesNothing(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	inModes(t, func(t *testing.T, opts ...etcdlock.Option) {
		for name, a := range lostAnswers {
			t.Run(name, func(t *testing.T) {
				f := newFaults()
				l, other := newLocker(t, c.faulty(t, f), append(opts, etcdlock.WithTTL(brief))...),
					newLocker(t, c.client(t), opts...)
				unlock(t, lock(t, l, "warm"))
				f.on("Txn", 1, a)
				_, err := l.TryLock(limited(t), "key")
				require.Error(t, err)
				require.True(t, relock.IsRetryableErr(err), "%v", err)
				s := testkit.NewStopwatch(t)
				hold := lock(t, other, "key")
				s.Within(time.Second)
				unlock(t, hold)
				unlock(t, lock(t, l, "key"))
				noKeys(t, c.client(t), "key")
			})
		}
	})
}

// A blocking Lock continues, and recognises its own earlier request.
func TestLockGoesOnWhenAnAnswerIsLost(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	inModes(t, func(t *testing.T, opts ...etcdlock.Option) {
		for name, a := range lostAnswers {
			t.Run(name, func(t *testing.T) {
				f := newFaults()
				l := newLocker(t, c.faulty(t, f), append(opts, etcdlock.WithTTL(brief))...)
				unlock(t, lock(t, l, "warm"))
				f.on("Txn", 1, a)
				hold := lock(t, l, "key")
				require.Len(t, keysOf(t, c.client(t), "key"), 1)
				unlock(t, hold)
				noKeys(t, c.client(t), "key")
			})
		}
	})
}

// A request that is executed long after its claim was abandoned creates
// nothing. The same is true of a request of a hold that was unlocked.
func TestLateRequestMakesNothing(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	inModes(t, func(t *testing.T, opts ...etcdlock.Option) {
		admin := c.client(t)
		t.Run("given up", func(t *testing.T) {
			f := newFaults()
			l := newLocker(t, c.faulty(t, f), opts...)
			unlock(t, lock(t, l, "warm"))
			late := f.on("Txn", 1, delay)
			_, err := l.TryLock(limited(t), "key")
			require.Error(t, err)
			soon(t, "the claim is cancelled", func() bool { return countCancelled(t, admin) > 0 })
			f.letGo(late)
			require.Empty(t, keysOf(t, admin, "key"))
			unlock(t, lock(t, newLocker(t, c.client(t), opts...), "key"))
			require.NoError(t, l.Close())
			require.Zero(t, countCancelled(t, admin))
		})
		t.Run("unlocked", func(t *testing.T) {
			f := newFaults()
			l := newLocker(t, c.faulty(t, f), opts...)
			unlock(t, lock(t, l, "warm"))
			late := f.on("Txn", 1, delay)
			unlock(t, lock(t, l, "key")) // by a second copy
			f.letGo(late)
			require.Empty(t, keysOf(t, admin, "key"))
		})
	})
}

// A late request for a place in the queue of a fair lock creates nothing.
func TestLateRequestMakesNoPlace(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	admin, f := c.client(t), newFaults()
	l := newLocker(t, c.faulty(t, f), etcdlock.WithFair())
	hold := lock(t, newLocker(t, c.client(t), etcdlock.WithFair()), "key")
	leaveQueue := func() {
		ctx, cancel := context.WithCancel(limited(t))
		left := make(chan error, 1)
		go func() {
			_, err := l.Lock(ctx, "key")
			left <- err
		}()
		soon(t, "it is queued", func() bool { return len(keysOf(t, admin, "key")) == 2 })
		cancel()
		require.ErrorIs(t, <-left, context.Canceled)
		soon(t, "its key is deleted", func() bool { return len(keysOf(t, admin, "key")) == 1 })
	}
	leaveQueue() // the next call expects others
	late := f.on("Txn", 1, delay)
	leaveQueue() // a second copy was executed
	f.letGo(late)
	require.Len(t, keysOf(t, admin, "key"), 1)
	unlock(t, hold)
}

func countCancelled(t testing.TB, client *clientv3.Client) int {
	t.Helper()
	resp, err := client.Get(limited(t), "relock/cancel/", clientv3.WithPrefix(), clientv3.WithCountOnly())
	require.NoError(t, err)
	return int(resp.Count)
}

// A call that is cancelled during its request returns immediately, and a later
// grant is released.
func TestCallerLeavesBeforeTheGrant(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	inModes(t, func(t *testing.T, opts ...etcdlock.Option) {
		f := newFaults()
		l := newLocker(t, c.faulty(t, f), append(opts, etcdlock.WithTTL(brief))...)
		unlock(t, lock(t, l, "warm"))
		f.on("Txn", 1, silence)
		ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
		defer cancel()
		s := testkit.NewStopwatch(t)
		_, err := l.Lock(ctx, "key")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		s.Within(100 * time.Millisecond)
		noKeys(t, c.client(t), "key")
	})
}

// The grant of another copy of its request is released, too, if the answered
// copy was refused because of it.
func TestCallerLeavesADoubledRequest(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	inModes(t, func(t *testing.T, opts ...etcdlock.Option) {
		f, admin := newFaults(), c.client(t)
		l := newLocker(t, c.faulty(t, f), opts...)
		unlock(t, lock(t, l, "warm"))
		copies := f.on("Txn", 1, doubleLate)
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		done := waiter(ctx, l, "key")
		soon(t, "the first copy is granted", func() bool { return len(keysOf(t, admin, "key")) == 1 })
		cancel()
		require.ErrorIs(t, await(t, done).err, context.Canceled)
		f.letGo(copies)
		noKeys(t, admin, "key")
	})
}

// Unlock does not report a lost answer if the next copy finds that the first
// one was executed.
func TestUnlockWithLostAnswers(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	inModes(t, func(t *testing.T, opts ...etcdlock.Option) {
		for name, a := range lostAnswers {
			t.Run(name, func(t *testing.T) {
				f := newFaults()
				l := newLocker(t, c.faulty(t, f), opts...)
				hold := lock(t, l, "key")
				f.on("Txn", 1, a)
				unlock(t, hold)
				noKeys(t, c.client(t), "key")
			})
		}
	})
}

// An Unlock that was executed, whose answer was lost, and whose lease has ended
// since, is neither a loss nor confirmed.
func TestUnlockWithoutAnswerAtTheEnd(t *testing.T) {
	t.Parallel()
	inModesTogether(t, func(t *testing.T, c *cluster, opts ...etcdlock.Option) {
		f := newFaults()
		l := newLocker(t, c.faulty(t, f), append(opts, etcdlock.WithTTL(9*time.Second))...)
		hold := lock(t, l, "key")
		lease := clientv3.LeaseID(onlyKey(t, c.client(t)).Lease)
		other := lock(t, l, "other")
		f.on("Txn", 1, dropAnswer)
		late := f.on("Txn", 0, answerLate)
		result := testkit.Async(t, func() error { return hold.Unlock(context.Background()) })
		noKeys(t, c.client(t), "key")
		_, err := c.client(t).Revoke(limited(t), lease)
		require.NoError(t, err)
		require.ErrorIs(t, testkit.EndedWithin(t, other.Context(), testkit.Patience), relock.ErrLockLost)
		f.letGo(late)
		err = testkit.ResultWithin(t, result, testkit.Patience)
		require.ErrorIs(t, err, relock.ErrUnconfirmed)
		require.NotErrorIs(t, err, relock.ErrLockLost)
	})
}

// Unlock of a hold with a separate lease, which ends with it, does not report a
// loss either.
func TestUnlockOfALongHoldWithLostAnswers(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	for name, a := range lostAnswers {
		t.Run(name, func(t *testing.T) {
			f := newFaults()
			l := newLocker(t, c.faulty(t, f))
			hold := lock(t, l, "key")
			require.NoError(t, hold.Extend(limited(t), 3*lease))
			f.on("Txn", 1, a)
			unlock(t, hold)
			noKeys(t, c.client(t), "key")
		})
	}
}

// A late Unlock does not end the next hold. An unanswered one continues in the
// background, and returns within its limit.
func TestUnlockUnconfirmed(t *testing.T) {
	t.Parallel()
	inModesTogether(t, func(t *testing.T, c *cluster, opts ...etcdlock.Option) {
		f := newFaults()
		l := newLocker(t, c.faulty(t, f), append(opts, etcdlock.WithTTL(brief))...)
		hold := lock(t, l, "key")
		f.on("Txn", 0, refuse)
		s := testkit.NewStopwatch(t)
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		err := hold.Unlock(ctx)
		require.ErrorIs(t, err, relock.ErrUnconfirmed)
		require.False(t, relock.IsRetryableErr(err))
		s.Within(brief / 3)
		require.ErrorIs(t, hold.Unlock(ctx), relock.ErrNotHeld)
		time.Sleep(brief + time.Second) // the lease is kept alive, and with it the key
		require.Len(t, keysOf(t, c.client(t), "key"), 1)
		f.clear()
		noKeys(t, c.client(t), "key")
		require.NoError(t, newestOf(t, l).Err())
	})
}

// A proxy that cancels streams does not count as a closed client, and neither
// does a member that is stopping. Unlock continues in the background, even
// after an error that a closed client would return. A Lock continues.
func TestStreamsAreCancelled(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	inModes(t, func(t *testing.T, opts ...etcdlock.Option) {
		f := newFaults()
		l := newLocker(t, c.clientWith(t, clientv3.Config{DialOptions: f.dial(), MaxUnaryRetries: 1}),
			append(opts, etcdlock.WithTTL(brief))...)
		for _, a := range []action{cancelStream, cancelCall} {
			hold := lock(t, l, "key")
			f.on("Txn", 0, a)
			err := hold.Unlock(limited(t))
			if a == cancelStream || !errors.Is(err, relock.ErrClosed) { // the last try may have had no time left
				require.ErrorIs(t, err, relock.ErrUnconfirmed)
			}
			f.clear()
			noKeys(t, c.client(t), "key")
		}
		require.NoError(t, newestOf(t, l).Err(), "the lease lives")
		for _, a := range []action{cancelStream, stopping} {
			f.on("Txn", 1, a)
			unlock(t, lock(t, l, "key"))
			f.clear()
		}
	})
}

func newestOf(t testing.TB, l *etcdlock.Locker) relock.Hold {
	t.Helper()
	return lock(t, l, "another")
}

func TestLateUnlockLeavesTheNextHoldAlone(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	inModes(t, func(t *testing.T, opts ...etcdlock.Option) {
		f := newFaults()
		l := newLocker(t, c.faulty(t, f), opts...)
		hold := lock(t, l, "key")
		late := f.on("Txn", 1, delay)
		unlock(t, hold) // by a second copy
		next := lock(t, l, "key")
		f.letGo(late)
		require.Len(t, keysOf(t, c.client(t), "key"), 1)
		owned, err := etcdlock.Cmp(next)
		require.NoError(t, err)
		resp, err := c.client(t).Txn(limited(t)).If(owned).Commit()
		require.NoError(t, err)
		require.True(t, resp.Succeeded, "the next hold is there")
		unlock(t, next)
	})
}

// Doubled requests count once.
func TestDoubledRequests(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	inModes(t, func(t *testing.T, opts ...etcdlock.Option) {
		f := newFaults()
		l := newLocker(t, c.faulty(t, f), opts...)
		f.on("Txn", 0, double)
		for n := range 20 {
			call := []func(context.Context, string) (relock.Hold, error){l.Lock, l.TryLock}[n%2]
			hold, err := call(limited(t), "key")
			require.NoError(t, err)
			require.Len(t, keysOf(t, c.client(t), "key"), 1)
			if err := hold.Unlock(limited(t)); err != nil {
				// The answered copy finds no key: to the client, the key was
				// deleted externally.
				require.ErrorIs(t, err, relock.ErrLockLost)
			}
			require.Empty(t, keysOf(t, c.client(t), "key"))
		}
	})
}

// A call that is refused, and cannot read why, leaves no key. A copy that it
// does not know of may have made one.
func TestUnreadRefusalLeavesNothing(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	inModes(t, func(t *testing.T, opts ...etcdlock.Option) {
		f := newFaults()
		l := newLocker(t, c.faulty(t, f), opts...)
		f.on("Txn", 1, double)
		f.on("Txn", 1, denied) // the one after it
		_, err := l.Lock(limited(t), "key")
		require.ErrorIs(t, err, relock.ErrDenied)
		noKeys(t, c.client(t), "key")
		unlock(t, lock(t, l, "key"))
	})
}

func TestMistakesOfExtend(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	l := newLocker(t, c.client(t))
	hold := lock(t, l, "key")
	for _, d := range []time.Duration{0, -1, time.Millisecond, time.Second + 1} {
		require.ErrorIs(t, hold.Extend(limited(t), d), relock.ErrInvalid)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	require.ErrorIs(t, hold.Extend(ctx, lease), context.Canceled)
	require.NoError(t, hold.Err())
	var e *relock.Error
	require.True(t, errors.As(hold.Extend(ctx, 0), &e))
	assert.Equal(t, "extend", e.Op)
	unlock(t, hold)
	require.ErrorIs(t, hold.Extend(limited(t), lease), relock.ErrNotHeld)
}
