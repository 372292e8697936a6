package locktest

import (
	"context"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/scripttest"
	"github.com/relock-go/relock/internal/testkit"
)

// RedPoll is the longest poll interval. A call that is not notified waits for
// half of that, on average.
const RedPoll = RedLease / 4

// PatientPoll is that of patient calls. Whether they were notified shows on a
// busy machine too.
const PatientPoll = CellLease / 4

// RedCall is a call that waits.
type RedCall struct {
	ended chan struct{}
	Hold  relock.Hold
	err   error
	At    time.Time
}

func (b *RedBench) Wait(ctx context.Context, clients []*relock.Client, opts ...relock.LockOption) *RedCall {
	return b.begin(ctx, b.Lock(clients, append([]relock.LockOption{relock.WithBlock(), relock.WithPollInterval(RedPoll)}, opts...)...))
}

// WaitPatiently is wait where the next poll is far away.
func (b *RedBench) WaitPatiently(ctx context.Context, clients []*relock.Client, opts ...relock.LockOption) *RedCall {
	return b.begin(ctx, b.patientBy(clients, append([]relock.LockOption{relock.WithBlock(), relock.WithPollInterval(PatientPoll)}, opts...)...))
}

func (b *RedBench) begin(ctx context.Context, l *relock.RedLock) *RedCall {
	w := &RedCall{ended: make(chan struct{})}
	testkit.Async(b, func() error {
		defer close(w.ended)
		w.Hold, w.err = l.Acquire(ctx)
		w.At = time.Now()
		return nil
	})
	return w
}

func (b *RedBench) End(w *RedCall) error {
	b.Helper()
	select {
	case <-w.ended:
	case <-time.After(testkit.Patience):
		require.FailNow(b, "waits for ever")
	}
	return w.err
}

// Granted ends the hold before, and says how long it took the call to get the lock.
func (b *RedBench) Granted(w *RedCall, before relock.Hold) (relock.Hold, time.Duration) {
	b.Helper()
	start := time.Now()
	require.NoError(b, before.Unlock(context.Background()))
	require.NoError(b, b.End(w))
	return w.Hold, w.At.Sub(start)
}

func (b *RedBench) List(node int) []string {
	b.Helper()
	all, err := redis.Strings(b.Servers[node].Do(b, "ZRANGE", b.Prefix+"{k}"+script.WaitersSuffix, 0, -1), nil)
	require.NoError(b, err)
	return all
}

// AwaitListed waits until so many are listed at a quorum of the nodes, and will be told. Where nobody has a node, nobody is listed there.
func (b *RedBench) AwaitListed(n int, clients []*relock.Client) {
	b.Helper()
	testkit.Eventually(b, testkit.Patience, func() bool {
		nodes := 0
		for node := range b.Servers {
			if len(b.List(node)) == n && Engine(clients[node]).Queue.State().Subscribed {
				nodes++
			}
		}
		return 2*nodes > len(b.Servers)
	}, "listed")
}

// RequireNobodyListed looks at the lists, which would end by themselves after 12 s, and at what the clients remember.
func (b *RedBench) RequireNobodyListed(clients []*relock.Client) {
	b.Helper()
	for node := range b.Servers {
		testkit.Eventually(b, 5*time.Second, func() bool { return len(b.List(node)) == 0 }, "lists")
	}
	for _, c := range clients {
		require.Zero(b, Engine(c).Queue.State().Quorum)
	}
}

// HoldRaw makes nodes look held for so long, by holds with these names; "" is free.
func (b *RedBench) HoldRaw(lease time.Duration, holds ...string) {
	b.Helper()
	for node, hold := range holds {
		if hold != "" {
			b.Servers[node].Do(b, "SET", b.Prefix+"{k}", scripttest.RedValue(hold, node), "PX", lease.Milliseconds())
		}
	}
}

// RequireHeldBy waits until so many nodes are held.
func (b *RedBench) RequireHeldBy(n int) {
	b.Helper()
	testkit.Eventually(b, testkit.Patience, func() bool { return b.Holding() == n }, "held by others")
}
