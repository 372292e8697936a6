package relock

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/scripttest"
	"github.com/relock-go/relock/internal/testkit"
)

// redLeisure is the longest poll interval: who is not woken waits for half of that, on average.
const redLeisure = redLease / 4

// cellLeisure is that of patient calls. Whether they were woken shows on a machine that is busy, too.
const cellLeisure = cellLease / 4

// redCall is a call that waits.
type redCall struct {
	ended chan struct{}
	hold  Hold
	err   error
	at    time.Time
}

func (b *redBench) wait(ctx context.Context, clients []*Client, opts ...LockOption) *redCall {
	return b.begin(ctx, b.lock(clients, append([]LockOption{WithBlock(), WithPollInterval(redLeisure)}, opts...)...))
}

// waitPatiently is wait where the next poll is far away.
func (b *redBench) waitPatiently(ctx context.Context, clients []*Client, opts ...LockOption) *redCall {
	return b.begin(ctx, b.patientBy(clients, append([]LockOption{WithBlock(), WithPollInterval(cellLeisure)}, opts...)...))
}

func (b *redBench) begin(ctx context.Context, l *RedLock) *redCall {
	w := &redCall{ended: make(chan struct{})}
	testkit.Async(b, func() error {
		defer close(w.ended)
		w.hold, w.err = l.Acquire(ctx)
		w.at = time.Now()
		return nil
	})
	return w
}

func (b *redBench) end(w *redCall) error {
	b.Helper()
	select {
	case <-w.ended:
	case <-time.After(testkit.Patience):
		require.FailNow(b, "waits for ever")
	}
	return w.err
}

// granted ends the hold before, and says how long it took the call to get the lock.
func (b *redBench) granted(w *redCall, before Hold) (Hold, time.Duration) {
	b.Helper()
	start := time.Now()
	require.NoError(b, before.Unlock(context.Background()))
	require.NoError(b, b.end(w))
	return w.hold, w.at.Sub(start)
}

func (b *redBench) list(node int) []string {
	b.Helper()
	all, err := redis.Strings(b.servers[node].Do(b, "ZRANGE", b.prefix+"{k}"+script.WaitersSuffix, 0, -1), nil)
	require.NoError(b, err)
	return all
}

// awaitListed waits until so many are listed at a quorum of the nodes, and will be told. Where nobody has a node, nobody is listed there.
func (b *redBench) awaitListed(n int, clients []*Client) {
	b.Helper()
	testkit.Eventually(b, testkit.Patience, func() bool {
		nodes := 0
		for node := range b.servers {
			if len(b.list(node)) == n && clients[node].engine.Queue.State().Subscribed {
				nodes++
			}
		}
		return 2*nodes > len(b.servers)
	}, "listed")
}

// requireNobodyListed looks at the lists, which would end by themselves after 12 s, and at what the clients remember.
func (b *redBench) requireNobodyListed(clients []*Client) {
	b.Helper()
	for node := range b.servers {
		testkit.Eventually(b, 5*time.Second, func() bool { return len(b.list(node)) == 0 }, "lists")
	}
	for _, c := range clients {
		require.Zero(b, c.engine.Queue.State().Quorum)
	}
}

// holdRaw makes nodes look held for so long, by holds with these names; "" is free.
func (b *redBench) holdRaw(lease time.Duration, holds ...string) {
	b.Helper()
	for node, hold := range holds {
		if hold != "" {
			b.servers[node].Do(b, "SET", b.prefix+"{k}", scripttest.RedValue(hold, node), "PX", lease.Milliseconds())
		}
	}
}

// requireHeldBy waits until so many nodes are held.
func (b *redBench) requireHeldBy(n int) {
	b.Helper()
	testkit.Eventually(b, testkit.Patience, func() bool { return b.holding() == n }, "held by others")
}

// less are clients of a user with fewer permissions.
func (b *redBench) less(rules ...any) (all []*Client) {
	b.Helper()
	for _, s := range b.servers {
		s.Do(b, "ACL", append([]any{"SETUSER", "less", "on", ">pw", "~*", "&*", "+@all"}, rules...)...)
		c, err := NewClient(s.Network, s.Address, "pw", WithUsername("less"), WithKeyPrefix(b.prefix))
		require.NoError(b, err)
		b.Cleanup(func() { _ = c.Close() })
		all = append(all, c)
	}
	return all
}

// awaitAsked waits until the next call has asked: in vain, as the lock is held.
func (b *redBench) awaitAsked() {
	b.Helper()
	calls := func() (n int) {
		for _, s := range b.servers {
			text, err := redis.String(s.Do(b, "INFO", "commandstats"), nil)
			require.NoError(b, err)
			var one int
			_, rest, _ := strings.Cut(text, "cmdstat_evalsha:calls=")
			_, _ = fmt.Sscan(strings.SplitN(rest, ",", 2)[0], &one)
			n += one
		}
		return n
	}
	before := calls()
	testkit.Eventually(b, testkit.Patience, func() bool { return calls() >= before+2*len(b.servers) }, "asks")
}
