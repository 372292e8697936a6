package relock

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/testkit"
)

// What a call that is over was told, or would be, the next one is told.
func TestRedLockWaiterThatLeft(t *testing.T) {
	t.Parallel()
	for name, leave := range map[string]func(b *redBench, first []*Client, cancel func(), w *redCall){
		"its context ends": func(b *redBench, _ []*Client, cancel func(), w *redCall) {
			cancel()
			require.ErrorIs(b, b.end(w), context.Canceled)
		},
		"its clients are closed": func(b *redBench, first []*Client, _ func(), w *redCall) {
			for _, c := range first {
				require.NoError(b, c.Close())
			}
			require.ErrorIs(b, b.end(w), ErrClosed)
		},
		"it is listed again, late": func(b *redBench, first []*Client, cancel func(), w *redCall) {
			waits := make([]string, len(b.servers))
			for node := range b.servers {
				for _, wait := range b.list(node) {
					if strings.HasPrefix(wait, first[node].engine.Identity.ID+":") { // of a node that the holder has not, the next call may be the only one
						waits[node] = wait
					}
				}
			}
			cancel()
			require.ErrorIs(b, b.end(w), context.Canceled)
			for node, s := range b.servers {
				testkit.Eventually(b, testkit.Patience, func() bool { return !slices.Contains(b.list(node), waits[node]) }, "it leaves")
				if waits[node] != "" {
					s.Do(b, "ZADD", b.prefix+"{k}"+script.WaitersSuffix, 1, waits[node])
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newRedBench(t, newRedServers(t, 3))
			others := b.others()
			var took []time.Duration
			for range 5 {
				for _, s := range b.servers {
					s.Do(t, "DEL", b.prefix+"{k}"+script.WaitersSuffix) // what a late request has left
				}
				h, err := b.lock(b.clients).Acquire(t.Context())
				require.NoError(t, err)
				gone := b.others()
				ctx, cancel := context.WithCancel(t.Context())
				first := b.waitPatiently(ctx, gone)
				b.awaitListed(1, gone)
				second := b.waitPatiently(t.Context(), others)
				b.awaitListed(2, others)
				leave(b, gone, cancel, first)
				cancel()
				next, d := b.granted(second, h)
				took = append(took, d)
				require.NoError(t, next.Unlock(t.Context()))
				b.requireFree(time.Second)
			}
			b.requireNobodyListed(others)
			require.Less(t, middle(took), cellLeisure/5)
		})
	}
}

// Rounds that fail tell nobody of the nodes that they give back: calls that wait would wake each other without an end.
func TestRedLockRoundsThatFailWakeNobody(t *testing.T) {
	t.Parallel()
	b := newRedBench(t, newRedServers(t, 3))
	b.holdRaw(60*time.Second, "theirs", "theirs", "")
	waits := func() {
		t.Helper()
		w := b.wait(t.Context(), b.clients, WithBlockTimeout(redLeisure), WithPollInterval(redLeisure/8))
		require.ErrorIs(t, b.end(w), ErrLockAcquiredByOthers)
	}
	b.servers[2].Do(t, "ZADD", b.prefix+"{k}"+script.WaitersSuffix, 1, "gone:1:q")
	given := b.proxies[2].Count(faults.Script(script.Release.SHA))
	require.ErrorIs(t, b.lock(b.clients).Lock(t.Context()), ErrLockAcquiredByOthers)
	require.True(t, b.proxies[2].Await(faults.Script(script.Release.SHA), given+1, testkit.Patience))
	b.requireHeldBy(2)
	require.Equal(t, []string{"gone:1:q"}, b.list(2))
	b.servers[2].Do(t, "DEL", b.prefix+"{k}"+script.WaitersSuffix)
	waits()
	b.requireNobodyListed(b.clients)
}

// A round that failed keeps no node for its minimum hold.
func TestRedLockRoundsThatFailKeepNothing(t *testing.T) {
	t.Parallel()
	b := newRedBench(t, newRedServers(t, 3))
	b.holdRaw(60*time.Second, "theirs", "theirs", "")
	given := b.proxies[2].Count(faults.Script(script.Release.SHA))
	require.ErrorIs(t, b.lock(b.clients, WithMinHold(redLease*9/10)).Lock(t.Context()), ErrLockAcquiredByOthers)
	require.True(t, b.proxies[2].Await(faults.Script(script.Release.SHA), given+1, testkit.Patience))
	testkit.Eventually(t, redLease/2, func() bool { return b.holding() == 2 }, "kept for nobody")
	for _, s := range b.servers {
		s.Do(t, "DEL", b.prefix+"{k}")
	}
	h, err := b.lock(b.clients, WithMinHold(redLease/2)).Acquire(t.Context())
	require.NoError(t, err)
	require.NoError(t, h.Unlock(t.Context()))
	require.GreaterOrEqual(t, b.holding(), 2, "what was had is kept")
}

// While others have nodes, but no hold has a quorum, nobody will tell: the call goes by its poll interval.
func TestRedLockWaitersThatShareTheNodes(t *testing.T) {
	t.Parallel()
	b := newRedBench(t, newRedServers(t, 3))
	others := b.others()
	var took []time.Duration
	for range 5 {
		b.holdRaw(60*time.Second, "one", "another", "")
		w := b.wait(t.Context(), others, WithPollInterval(20*time.Millisecond))
		for node := range b.servers[:2] {
			testkit.Eventually(t, testkit.Patience, func() bool { return len(b.list(node)) == 1 && others[node].engine.Queue.State().Subscribed }, "listed")
		}
		b.awaitAsked()
		b.awaitAsked()
		for _, s := range b.servers[:2] {
			s.Do(t, "DEL", b.prefix+"{k}")
		}
		start := time.Now()
		require.NoError(t, b.end(w))
		took = append(took, w.at.Sub(start))
		require.NoError(t, w.hold.Unlock(t.Context()))
		b.requireFree(time.Second)
	}
	require.Less(t, middle(took), 200*time.Millisecond)
}

// A call that leaves in the middle of a round was told in another's place: what it gives back is told.
func TestRedLockCallThatLeavesWhileItAsks(t *testing.T) {
	t.Parallel()
	b := newRedBench(t, newRedServers(t, 3))
	for _, p := range b.proxies[1:] {
		p.On(faults.Script(script.RedLockAcquire.SHA), 1, faults.Delay(time.Second))
	}
	for _, s := range b.servers {
		s.Do(t, "ZADD", b.prefix+"{k}"+script.WaitersSuffix, 1, "gone:1:q")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 150*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, b.patient().Lock(ctx), context.DeadlineExceeded)
	b.requireNobodyListed(b.clients)
	b.requireFree(5 * time.Second)
}
