package test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	etcdlock "github.com/relock-go/relock/etcd"
)

// In a storm of short calls, nested calls, losses and a Close, each granted
// call has one HoldDone, after its LockDone.
func TestObserverInAStorm(t *testing.T) {
	t.Parallel()
	inModesTogether(t, func(t *testing.T, c *cluster, opts ...etcdlock.Option) {
		d, admin := newDiary(), c.client(t)
		l := newLocker(t, c.client(t), append(opts, etcdlock.WithTTL(brief), etcdlock.WithObserver(d.observer()))...)
		var group sync.WaitGroup
		for g := range 8 {
			group.Go(func() {
				for n := 0; !errors.Is(observedVisit(t, l, fmt.Sprintf("%d-%d", g, n)), relock.ErrClosed); n++ {
				}
			})
		}
		for n := range 4 {
			d.more(t, 40)
			_, err := l.Lock(named(limited(t), fmt.Sprintf("kept-%d", n)), fmt.Sprintf("kept-%d", n))
			assert.NoError(t, err)
			leases, err := admin.Leases(limited(t))
			assert.NoError(t, err)
			for _, lease := range leases.Leases {
				_, _ = admin.Revoke(limited(t), lease.ID)
			}
		}
		d.more(t, 40)
		assert.NoError(t, l.Close())
		group.Wait()
		assert.GreaterOrEqual(t, d.check(t), 4, "those that were kept are lost")
	})
}

// more waits until so many holds more have ended.
func (d *diary) more(t *testing.T, n int) {
	t.Helper()
	ended := func() int {
		d.mu.Lock()
		defer d.mu.Unlock()
		return len(d.ends)
	}
	before := ended()
	soon(t, "holds end", func() bool { return ended() >= before+n })
}

// observedVisit locks and unlocks, perhaps with a nested hold, or is cancelled
// before.
func observedVisit(t *testing.T, l *etcdlock.Locker, name string) error {
	limit := patience
	if rand.IntN(2) == 0 {
		limit = rand.N(20 * time.Millisecond)
	}
	ctx, cancel := context.WithTimeout(named(context.Background(), name), limit)
	defer cancel()
	hold, err := l.Lock(ctx, "key")
	if err != nil {
		return err
	}
	if inner, err := l.Lock(named(context.WithoutCancel(hold.Context()), name+"-inner"), "key"); err == nil {
		defer func() { _ = inner.Unlock(context.Background()) }()
	}
	err = hold.Unlock(context.Background())
	if err != nil && !errors.Is(err, relock.ErrLockLost) && !errors.Is(err, relock.ErrClosed) &&
		!errors.Is(err, relock.ErrUnconfirmed) {
		t.Errorf("Unlock: %v", err)
	}
	return err
}

// check compares the events of each call, once the Locker is closed.
func (d *diary) check(t *testing.T) (lost int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	seen := map[string][]string{}
	for _, line := range d.order {
		var what, name string
		_, err := fmt.Sscan(line, &what, &name)
		require.NoError(t, err)
		seen[name] = append(seen[name], what)
	}
	held := 0
	for name, events := range seen {
		want := []string{"start", "done"}
		if d.done[name].Err == nil {
			want = append(want, "end")
			held++
		}
		require.Equal(t, want, events, name)
		if ends := d.ends[name]; len(ends) > 0 && ends[0].Err != nil {
			lost++
		}
	}
	require.Positive(t, held)
	t.Logf("%d calls, %d of them had the lock, %d of those ended in an error", len(seen), held, lost)
	return lost
}
