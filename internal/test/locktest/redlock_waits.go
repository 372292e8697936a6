package locktest

import (
	"context"
	"fmt"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/test/testkit"
)

// RedPoll is the longest poll interval. A call that is not notified waits for
// half of that, on average.
const RedPoll = RedLease / 4

// PatientPoll is that of patient calls. Whether they were notified shows on a
// busy machine too.
const PatientPoll = FaultLease / 4

// Wait begins to wait.
func (b *RedBench) Wait(ctx context.Context, clients []*relock.Client, opts ...relock.LockOption) *Waiting {
	return b.begin(ctx,
		b.Lock(clients, append([]relock.LockOption{relock.WithBlock(), relock.WithPollInterval(RedPoll)}, opts...)...))
}

// WaitPatiently begins to wait with the next poll far away.
func (b *RedBench) WaitPatiently(ctx context.Context, clients []*relock.Client, opts ...relock.LockOption) *Waiting {
	return b.begin(ctx, NewPatientRedLock("k", clients,
		append([]relock.LockOption{relock.WithBlock(), relock.WithPollInterval(PatientPoll)}, opts...)...))
}

func (b *RedBench) begin(ctx context.Context, l AnyLock) *Waiting {
	w := newWaiting(b, func() string { return fmt.Sprint(b.HeldNodes(), " nodes are held") })
	testkit.Async(b, func() error { return w.run(ctx, l) })
	return w
}

// Granted releases the hold before, and returns the hold of the call and how
// long it took to get it, less what the machine may have added.
func (b *RedBench) Granted(w *Waiting, before relock.Hold) (relock.Hold, time.Duration) {
	b.Helper()
	watch := testkit.NewStopwatch(b)
	require.NoError(b, before.Unlock(context.Background()))
	return w.Granted(), watch.Net()
}

// ListedWaits returns the waits that a node lists.
func (b *RedBench) ListedWaits(node int) []string {
	b.Helper()
	all, err := redis.Strings(b.Servers[node].Do(b, "ZRANGE", b.Prefix+"{k}"+script.WaitersSuffix, 0, -1), nil)
	require.NoError(b, err)
	return all
}

// IsSubscribed reports whether messages about the lock reach the client.
func (b *RedBench) IsSubscribed(c *relock.Client) bool { return IsSubscribed(c, "k") }

// AwaitListed waits until n waits are listed at a quorum of the nodes, and will
// be notified. A node that nobody holds lists nobody.
func (b *RedBench) AwaitListed(n int, clients []*relock.Client) {
	b.Helper()
	testkit.Eventually(b, testkit.Patience, func() bool {
		nodes := 0
		for node := range b.Servers {
			if len(b.ListedWaits(node)) == n && b.IsSubscribed(clients[node]) {
				nodes++
			}
		}
		return 2*nodes > len(b.Servers)
	}, "listed")
}

// RequireNoListedWaits waits until no node lists a wait, which would expire
// after 12 s, and checks that no call of the clients waits.
func (b *RedBench) RequireNoListedWaits(clients []*relock.Client) {
	b.Helper()
	for node := range b.Servers {
		EventuallyWithin(b, 5*time.Second, func() bool { return len(b.ListedWaits(node)) == 0 }, "lists")
	}
	for _, c := range clients {
		require.Zero(b, c.Stats().Waiting)
	}
}
