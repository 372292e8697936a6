package test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	etcdlock "github.com/relock-go/relock/etcd"
	"github.com/relock-go/relock/internal/test/testkit"
)

// diary is an observer that records its events. A call is identified by the
// name that its context carries.
type diary struct {
	mu     sync.Mutex
	order  []string // "start a", "done a", "end a"
	done   map[string]relock.LockDone
	ends   map[string][]relock.HoldDone
	renews []relock.RenewDone
}

func newDiary() *diary {
	return &diary{done: map[string]relock.LockDone{}, ends: map[string][]relock.HoldDone{}}
}

type nameKey struct{}

func named(ctx context.Context, name string) context.Context {
	return context.WithValue(ctx, nameKey{}, name)
}

func (d *diary) note(ctx context.Context, what string) (name string) {
	name, _ = ctx.Value(nameKey{}).(string)
	d.order = append(d.order, what+" "+name)
	return name
}

func (d *diary) observer() relock.Observer {
	return relock.Observer{
		LockStart: func(ctx context.Context, _ relock.LockStart) {
			d.mu.Lock()
			defer d.mu.Unlock()
			d.note(ctx, "start")
		},
		LockDone: func(ctx context.Context, e relock.LockDone) {
			d.mu.Lock()
			defer d.mu.Unlock()
			d.done[d.note(ctx, "done")] = e
		},
		HoldDone: func(ctx context.Context, e relock.HoldDone) {
			d.mu.Lock()
			defer d.mu.Unlock()
			name := d.note(ctx, "end")
			d.ends[name] = append(d.ends[name], e)
		},
		RenewDone: func(_ context.Context, e relock.RenewDone) {
			d.mu.Lock()
			defer d.mu.Unlock()
			d.renews = append(d.renews, e)
		},
	}
}

// end is the only end of a call's hold, which may come a moment later.
func (d *diary) end(t *testing.T, name string) relock.HoldDone {
	t.Helper()
	soon(t, "the end of "+name+" is reported", func() bool {
		d.mu.Lock()
		defer d.mu.Unlock()
		return len(d.ends[name]) > 0
	})
	d.mu.Lock()
	defer d.mu.Unlock()
	require.Len(t, d.ends[name], 1)
	return d.ends[name][0]
}

// renewed waits for a renewal that ok is true for.
func (d *diary) renewed(t *testing.T, ok func(relock.RenewDone) bool) relock.RenewDone {
	t.Helper()
	var found relock.RenewDone
	soon(t, "a renewal", func() bool {
		d.mu.Lock()
		defer d.mu.Unlock()
		for _, found = range d.renews {
			if ok(found) {
				return true
			}
		}
		return false
	})
	return found
}

// Each call has a start and an end, and each hold, nested ones too, has an end,
// in this order.
func TestObserverOfCalls(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	inModes(t, func(t *testing.T, opts ...etcdlock.Option) {
		d := newDiary()
		l := newLocker(t, c.client(t), append(opts, etcdlock.WithObserver(d.observer()))...)
		before := time.Now()
		outer, err := l.Lock(named(limited(t), "outer"), "key")
		require.NoError(t, err)
		locked := time.Now()
		inner, err := l.TryLock(named(outer.Context(), "inner"), "key")
		require.NoError(t, err)
		_, refused := l.TryLock(named(limited(t), "refused"), "key")
		require.ErrorIs(t, refused, relock.ErrLockAcquiredByOthers)
		short, cancel := context.WithTimeout(named(limited(t), "left"), 20*time.Millisecond)
		defer cancel()
		_, left := l.Lock(short, "key")
		require.ErrorIs(t, left, context.DeadlineExceeded)
		_, bad := l.Lock(named(limited(t), "bad"), "")
		require.ErrorIs(t, bad, relock.ErrInvalid)
		_, noContext := l.Lock(nil, "key") //nolint:staticcheck // refused
		require.ErrorIs(t, noContext, relock.ErrInvalid)
		unlock(t, inner)
		unlocking := time.Now()
		unlock(t, outer)
		unlocked := time.Now()
		require.ErrorIs(t, outer.Unlock(context.Background()), relock.ErrNotHeld)

		want := []string{
			"start outer", "done outer", "start inner", "done inner", "start refused", "done refused", "start left", "done left",
			"start bad", "done bad", "start ", "done ", "end inner", "end outer",
		}
		require.Equal(t, want, d.order)
		for name, err := range map[string]error{"refused": refused, "left": left, "bad": bad, "": noContext} {
			require.Equal(t, err, d.done[name].Err)
		}
		require.Equal(t, relock.LockStart{Key: "key", Kind: "etcd"}, d.done["inner"].LockStart)
		require.Equal(t, relock.LockStart{Key: "key", Kind: "etcd", Block: true}, d.done["outer"].LockStart)
		inOrder(t, before, d.done["outer"].Start, d.end(t, "outer").Start, locked, unlocking, d.end(t, "outer").End, unlocked)
		for _, name := range []string{"outer", "inner", "refused", "bad"} {
			require.False(t, d.done[name].Waited, name)
		}
		end := d.end(t, "inner")
		require.Equal(t, relock.HoldDone{Key: "key", Kind: "etcd", Start: end.Start, End: end.End}, end)
	})
}

func inOrder(t *testing.T, times ...time.Time) {
	t.Helper()
	for i := range times[1:] {
		require.False(t, times[i+1].Before(times[i]), "the time at %d is before the one at %d", i+1, i)
	}
}

// All observers are notified, also of the error of an Unlock.
func TestObserversOfAnUnlockWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	p := newProxy(t, c.endpoints[0])
	one, other := newDiary(), newDiary()
	l := newLocker(t, c.client(t, p.address), etcdlock.WithObserver(one.observer()),
		etcdlock.WithObserver(other.observer()), etcdlock.WithObserver(relock.Observer{}))
	hold, err := l.Lock(named(limited(t), "a"), "key")
	require.NoError(t, err)
	p.silence()
	err = hold.Unlock(limited(t))
	require.ErrorIs(t, err, relock.ErrUnconfirmed)
	for _, d := range []*diary{one, other} {
		require.Equal(t, err, d.end(t, "a").Err)
		require.Equal(t, []string{"start a", "done a", "end a"}, d.order)
	}
}

// A loss is reported immediately, for nested holds too, and not again by
// Unlock.
func TestObserverOfALoss(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	d := newDiary()
	l := newLocker(t, c.client(t), etcdlock.WithObserver(d.observer()), etcdlock.WithTTL(6*time.Second))
	outer, err := l.Lock(named(limited(t), "outer"), "key")
	require.NoError(t, err)
	inner, err := l.Lock(named(outer.Context(), "inner"), "key")
	require.NoError(t, err)
	good := d.renewed(t, func(e relock.RenewDone) bool { return e.Err == nil })
	inOrder(t, d.done["inner"].Start, good.Start, time.Now())
	require.Empty(t, good.Key)
	revokeAll(t, c.client(t))
	s := testkit.NewStopwatch(t)
	for name, hold := range map[string]relock.Hold{"outer": outer, "inner": inner} {
		end := d.end(t, name)
		require.Equal(t, hold.Err(), end.Err)
		require.ErrorIs(t, end.Err, relock.ErrLockLost)
		s.Check(time.Since(end.End), 200*time.Millisecond)
		require.ErrorIs(t, hold.Unlock(context.Background()), relock.ErrLockLost)
	}
	d.renewed(t, func(e relock.RenewDone) bool { return errors.Is(e.Err, relock.ErrLockLost) })
	require.NoError(t, l.Close())
	d.end(t, "outer")
	d.end(t, "inner")
}

// A failed renewal is reported, and so is the next successful one.
func TestObserverOfRenewals(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	d, f := newDiary(), newFaults()
	l := newLocker(t, c.faulty(t, f), etcdlock.WithObserver(d.observer()), etcdlock.WithTTL(6*time.Second))
	f.on("LeaseKeepAlive", 1, refuse)
	hold := lock(t, l, "key")
	failed := d.renewed(t, func(e relock.RenewDone) bool { return e.Err != nil })
	require.NotErrorIs(t, failed.Err, relock.ErrLockLost)
	good := d.renewed(t, func(e relock.RenewDone) bool { return e.Err == nil })
	require.True(t, good.Start.After(failed.Start))
	require.NoError(t, hold.Err())
	unlock(t, hold)
}

// Close ends holds and waits, and has reported them when it returns.
func TestObserverOfClose(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	d := newDiary()
	l := newLocker(t, c.client(t), etcdlock.WithObserver(d.observer()))
	hold, err := l.Lock(named(limited(t), "held"), "key")
	require.NoError(t, err)
	waits := waiter(named(limited(t), "waits"), l, "key")
	soon(t, "the wait is under way", func() bool {
		d.mu.Lock()
		defer d.mu.Unlock()
		return len(d.order) == 3
	})
	require.NoError(t, l.Close())
	d.mu.Lock()
	require.Len(t, d.ends["held"], 1)
	require.Equal(t, hold.Err(), d.ends["held"][0].Err)
	d.mu.Unlock()
	require.ErrorIs(t, hold.Err(), relock.ErrClosed)
	require.ErrorIs(t, await(t, waits).err, relock.ErrClosed)
	require.ErrorIs(t, d.done["waits"].Err, relock.ErrClosed)
	require.ErrorIs(t, hold.Unlock(context.Background()), relock.ErrClosed)
	d.end(t, "held")
	require.Empty(t, d.ends["waits"])
}

// A hold that is lost before LockDone was called has its end right after.
func TestObserverOfALossBeforeTheCallEnds(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	admin, d, lost := c.client(t), newDiary(), make(chan struct{}, 100)
	slow := relock.Observer{
		LockDone: func(context.Context, relock.LockDone) {
			revokeAll(t, admin)
			<-lost
		},
		RenewDone: func(_ context.Context, e relock.RenewDone) {
			if e.Err != nil {
				lost <- struct{}{}
			}
		},
	}
	l := newLocker(t, c.client(t),
		etcdlock.WithTTL(6*time.Second), etcdlock.WithObserver(slow), etcdlock.WithObserver(d.observer()))
	hold, err := l.Lock(named(limited(t), "a"), "key")
	require.NoError(t, err)
	require.Equal(t, []string{"start a", "done a", "end a"}, d.order)
	require.ErrorIs(t, d.ends["a"][0].Err, relock.ErrLockLost)
	inOrder(t, d.done["a"].Start, d.ends["a"][0].Start, d.ends["a"][0].End)
	require.ErrorIs(t, hold.Unlock(limited(t)), relock.ErrLockLost)
	d.end(t, "a")
}
