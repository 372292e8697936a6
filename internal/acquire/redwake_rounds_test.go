package acquire_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/locktest"
	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/testkit"
)

// What a call that is over was told, or would be, the next one is told.
func TestRedLockWaiterThatLeft(t *testing.T) {
	t.Parallel()
	for name, leave := range map[string]func(b *locktest.RedBench, first []*relock.Client, cancel func(), w *locktest.RedCall){
		"its context ends": func(b *locktest.RedBench, _ []*relock.Client, cancel func(), w *locktest.RedCall) {
			cancel()
			require.ErrorIs(b, b.End(w), context.Canceled)
		},
		"its clients are closed": func(b *locktest.RedBench, first []*relock.Client, _ func(), w *locktest.RedCall) {
			for _, c := range first {
				require.NoError(b, c.Close())
			}
			require.ErrorIs(b, b.End(w), relock.ErrClosed)
		},
		"it is listed again, late": func(b *locktest.RedBench, first []*relock.Client, cancel func(), w *locktest.RedCall) {
			waits := make([]string, len(b.Servers))
			for node := range b.Servers {
				for _, wait := range b.List(node) {
					if strings.HasPrefix(wait, locktest.Engine(first[node]).Identity.ID+":") { // of a node that the holder has not, the next call may be the only one
						waits[node] = wait
					}
				}
			}
			cancel()
			require.ErrorIs(b, b.End(w), context.Canceled)
			for node, s := range b.Servers {
				testkit.Eventually(b, testkit.Patience, func() bool { return !slices.Contains(b.List(node), waits[node]) }, "it leaves")
				if waits[node] != "" {
					s.Do(b, "ZADD", b.Prefix+"{k}"+script.WaitersSuffix, 1, waits[node])
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := locktest.NewRedBench(t, locktest.NewRedServers(t, 3))
			others := b.Others()
			var took []time.Duration
			for range 5 {
				for _, s := range b.Servers {
					s.Do(t, "DEL", b.Prefix+"{k}"+script.WaitersSuffix) // what a late request has left
				}
				h, err := b.Lock(b.Clients).Acquire(t.Context())
				require.NoError(t, err)
				gone := b.Others()
				ctx, cancel := context.WithCancel(t.Context())
				first := b.WaitPatiently(ctx, gone)
				b.AwaitListed(1, gone)
				second := b.WaitPatiently(t.Context(), others)
				b.AwaitListed(2, others)
				leave(b, gone, cancel, first)
				cancel()
				next, d := b.Granted(second, h)
				took = append(took, d)
				require.NoError(t, next.Unlock(t.Context()))
				b.RequireFree(time.Second)
			}
			b.RequireNobodyListed(others)
			require.Less(t, locktest.Middle(took), locktest.CellLeisure/5)
		})
	}
}

// Rounds that fail tell nobody of the nodes that they give back: calls that wait would wake each other without an end.
func TestRedLockRoundsThatFailWakeNobody(t *testing.T) {
	t.Parallel()
	b := locktest.NewRedBench(t, locktest.NewRedServers(t, 3))
	b.HoldRaw(60*time.Second, "theirs", "theirs", "")
	waits := func() {
		t.Helper()
		w := b.Wait(t.Context(), b.Clients, relock.WithBlockTimeout(locktest.RedLeisure), relock.WithPollInterval(locktest.RedLeisure/8))
		require.ErrorIs(t, b.End(w), relock.ErrLockAcquiredByOthers)
	}
	b.Servers[2].Do(t, "ZADD", b.Prefix+"{k}"+script.WaitersSuffix, 1, "gone:1:q")
	given := b.Proxies[2].Count(faults.Script(script.Release.SHA))
	require.ErrorIs(t, b.Lock(b.Clients).Lock(t.Context()), relock.ErrLockAcquiredByOthers)
	require.True(t, b.Proxies[2].Await(faults.Script(script.Release.SHA), given+1, testkit.Patience))
	b.RequireHeldBy(2)
	require.Equal(t, []string{"gone:1:q"}, b.List(2))
	b.Servers[2].Do(t, "DEL", b.Prefix+"{k}"+script.WaitersSuffix)
	waits()
	b.RequireNobodyListed(b.Clients)
}

// A round that failed keeps no node for its minimum hold.
func TestRedLockRoundsThatFailKeepNothing(t *testing.T) {
	t.Parallel()
	b := locktest.NewRedBench(t, locktest.NewRedServers(t, 3))
	b.HoldRaw(60*time.Second, "theirs", "theirs", "")
	given := b.Proxies[2].Count(faults.Script(script.Release.SHA))
	require.ErrorIs(t, b.Lock(b.Clients, relock.WithMinHold(locktest.RedLease*9/10)).Lock(t.Context()), relock.ErrLockAcquiredByOthers)
	require.True(t, b.Proxies[2].Await(faults.Script(script.Release.SHA), given+1, testkit.Patience))
	testkit.Eventually(t, locktest.RedLease/2, func() bool { return b.Holding() == 2 }, "kept for nobody")
	for _, s := range b.Servers {
		s.Do(t, "DEL", b.Prefix+"{k}")
	}
	h, err := b.Lock(b.Clients, relock.WithMinHold(locktest.RedLease/2)).Acquire(t.Context())
	require.NoError(t, err)
	require.NoError(t, h.Unlock(t.Context()))
	require.GreaterOrEqual(t, b.Holding(), 2, "what was had is kept")
}

// While others have nodes, but no hold has a quorum, nobody will tell: the call goes by its poll interval.
func TestRedLockWaitersThatShareTheNodes(t *testing.T) {
	t.Parallel()
	b := locktest.NewRedBench(t, locktest.NewRedServers(t, 3))
	others := b.Others()
	var took []time.Duration
	for range 5 {
		b.HoldRaw(60*time.Second, "one", "another", "")
		w := b.Wait(t.Context(), others, relock.WithPollInterval(20*time.Millisecond))
		for node := range b.Servers[:2] {
			testkit.Eventually(t, testkit.Patience, func() bool { return len(b.List(node)) == 1 && locktest.Engine(others[node]).Queue.State().Subscribed }, "listed")
		}
		b.AwaitAsked()
		b.AwaitAsked()
		for _, s := range b.Servers[:2] {
			s.Do(t, "DEL", b.Prefix+"{k}")
		}
		start := time.Now()
		require.NoError(t, b.End(w))
		took = append(took, w.At.Sub(start))
		require.NoError(t, w.Hold.Unlock(t.Context()))
		b.RequireFree(time.Second)
	}
	require.Less(t, locktest.Middle(took), 200*time.Millisecond)
}

// A call that leaves in the middle of a round was told in another's place: what it gives back is told.
func TestRedLockCallThatLeavesWhileItAsks(t *testing.T) {
	t.Parallel()
	b := locktest.NewRedBench(t, locktest.NewRedServers(t, 3))
	for _, p := range b.Proxies[1:] {
		p.On(faults.Script(script.RedLockAcquire.SHA), 1, faults.Delay(time.Second))
	}
	for _, s := range b.Servers {
		s.Do(t, "ZADD", b.Prefix+"{k}"+script.WaitersSuffix, 1, "gone:1:q")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 150*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, b.Patient().Lock(ctx), context.DeadlineExceeded)
	b.RequireNobodyListed(b.Clients)
	b.RequireFree(5 * time.Second)
}
