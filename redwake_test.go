package relock

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/redistest"
)

// redLeisure is the longest poll interval: who is not woken waits for half of that, on average.
const redLeisure = redLease / 4

// redCall is a call that waits.
type redCall struct {
	ended chan struct{}
	hold  Hold
	err   error
	at    time.Time
}

func (b *redBench) wait(ctx context.Context, clients []*Client, opts ...LockOption) *redCall {
	w := &redCall{ended: make(chan struct{})}
	l := b.lock(clients, append([]LockOption{WithBlock(), WithPollInterval(redLeisure)}, opts...)...)
	async(b, func() error {
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
	case <-time.After(queuePatience):
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
	all, err := redis.Strings(b.servers[node].Do(b, "ZRANGE", b.prefix+"{k}"+endOfPlaces, 0, -1), nil)
	require.NoError(b, err)
	return all
}

// awaitListed waits until so many are listed at a quorum of the nodes, and will be told. Where nobody has a node, nobody is listed there.
func (b *redBench) awaitListed(n int, clients []*Client) {
	b.Helper()
	eventually(b, queuePatience, func() bool {
		nodes := 0
		for node := range b.servers {
			if len(b.list(node)) == n && clients[node].queue.hearing() {
				nodes++
			}
		}
		return 2*nodes > len(b.servers)
	}, "listed")
}

// hearing says that messages reach the client.
func (q *queue) hearing() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.feed.reaches()
}

// requireNobodyListed looks at the lists, which would end by themselves after 12 s, and at what the clients remember.
func (b *redBench) requireNobodyListed(clients []*Client) {
	b.Helper()
	for node := range b.servers {
		eventually(b, 5*time.Second, func() bool { return len(b.list(node)) == 0 }, "lists")
	}
	for _, c := range clients {
		c.queue.mu.Lock()
		require.Empty(b, c.queue.calls)
		c.queue.mu.Unlock()
	}
}

// The nodes that give the lock back tell a call that waits: polls would take it a quarter of a second.
func TestRedLockWaiterIsWoken(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string][]LockOption{"plain": nil, "fenced": {WithFencing()}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newRedBench(t, newRedServers(t, 3))
			others := b.others()
			var took []time.Duration
			for range 10 {
				h, err := b.lock(b.clients, opts...).Acquire(t.Context())
				require.NoError(t, err)
				w := b.wait(t.Context(), others, opts...)
				b.awaitListed(1, others)
				next, d := b.granted(w, h)
				took = append(took, d)
				require.NoError(t, next.Unlock(t.Context()))
				b.requireFree(time.Second)
			}
			b.requireNobodyListed(others)
			t.Logf("median %v, longest %v", middle(took), took[len(took)-1])
			require.Less(t, middle(took), redLeisure/5)
		})
	}
}

// One node that tells is enough.
func TestRedLockIsWokenByOneNode(t *testing.T) {
	t.Parallel()
	b := newRedBench(t, newRedServers(t, 3))
	others := b.others()
	for _, deaf := range b.servers[1:] {
		deaf.Do(t, "ACL", "SETUSER", "default", "-subscribe")
	}
	var took []time.Duration
	for range 5 {
		h, err := b.lock(b.clients).Acquire(t.Context())
		require.NoError(t, err)
		eventually(t, 5*time.Second, func() bool { return b.holding() == 3 }, "has all nodes")
		w := b.wait(t.Context(), others)
		eventually(t, queuePatience, func() bool { return len(b.list(0)) == 1 && others[0].queue.hearing() }, "listed")
		next, d := b.granted(w, h)
		took = append(took, d)
		require.NoError(t, next.Unlock(t.Context()))
		b.requireFree(time.Second)
	}
	require.Less(t, middle(took), redLeisure/5)
}

// While others hold the lock, and will tell, a call that waits asks rarely, whatever its poll interval is.
func TestRedLockWaiterIsIdle(t *testing.T) {
	t.Parallel()
	b := newRedBench(t, newRedServers(t, 3))
	others := b.others()
	h, err := b.lock(b.clients).Acquire(t.Context())
	require.NoError(t, err)
	w := b.wait(t.Context(), others, WithPollInterval(10*time.Millisecond))
	b.awaitListed(1, others)
	before := commandCount(t, b.servers[0])
	time.Sleep(redLease / 2)
	require.LessOrEqual(t, commandCount(t, b.servers[0])-before, int64(60), "a request has some 8 of them: every 10 ms there were 800")
	next, _ := b.granted(w, h)
	require.NoError(t, next.Unlock(t.Context()))
}

// A holder that is gone tells nobody: who waits asks again when its lease ends.
func TestRedLockWaiterAsksWhenTheLeaseEnds(t *testing.T) {
	t.Parallel()
	b := newRedBench(t, newRedServers(t, 3))
	others := b.others()
	var took []time.Duration
	for range 5 {
		const left = 250 * time.Millisecond
		for _, s := range b.servers {
			s.Do(t, "SET", b.prefix+"{k}", "relock/1|p|gone.1|c9|host|1|label|1", "PX", left.Milliseconds())
		}
		start := time.Now()
		w := b.wait(t.Context(), others, WithPollInterval(10*time.Millisecond))
		require.NoError(t, b.end(w))
		took = append(took, w.at.Sub(start)-left)
		require.NoError(t, w.hold.Unlock(t.Context()))
		b.requireFree(time.Second)
	}
	t.Logf("after the end of the lease: %v", took)
	require.Less(t, middle(took), 200*time.Millisecond, "a period is %v", b.lock(others).part.period())
}

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
				if list := b.list(node); len(list) > 0 {
					waits[node] = list[0]
				}
			}
			cancel()
			require.ErrorIs(b, b.end(w), context.Canceled)
			for node, s := range b.servers {
				eventually(b, queuePatience, func() bool { return !slices.Contains(b.list(node), waits[node]) }, "it leaves")
				if waits[node] != "" {
					s.Do(b, "ZADD", b.prefix+"{k}"+endOfPlaces, 1, waits[node])
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
					s.Do(t, "DEL", b.prefix+"{k}"+endOfPlaces) // what a late request has left
				}
				h, err := b.lock(b.clients).Acquire(t.Context())
				require.NoError(t, err)
				gone := b.others()
				ctx, cancel := context.WithCancel(t.Context())
				first := b.wait(ctx, gone)
				b.awaitListed(1, gone)
				second := b.wait(t.Context(), others)
				b.awaitListed(2, others)
				leave(b, gone, cancel, first)
				cancel()
				next, d := b.granted(second, h)
				took = append(took, d)
				require.NoError(t, next.Unlock(t.Context()))
				b.requireFree(time.Second)
			}
			b.requireNobodyListed(others)
			require.Less(t, middle(took), redLeisure/5)
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
	waits() // subscribes
	b.requireNobodyListed(b.clients)
	b.servers[2].Do(t, "ZADD", b.prefix+"{k}"+endOfPlaces, 1, "gone:1:q")
	given := b.proxies[2].Count(faults.Script(releaseScript.sha))
	require.ErrorIs(t, b.lock(b.clients).Lock(t.Context()), ErrLockAcquiredByOthers)
	require.True(t, b.proxies[2].Await(faults.Script(releaseScript.sha), given+1, queuePatience))
	b.requireHeldBy(2)
	require.Equal(t, []string{"gone:1:q"}, b.list(2))
}

// holdRaw makes nodes look held for so long, by holds with these names; "" is free.
func (b *redBench) holdRaw(lease time.Duration, holds ...string) {
	b.Helper()
	for node, hold := range holds {
		if hold != "" {
			b.servers[node].Do(b, "SET", b.prefix+"{k}", redValue(hold, node), "PX", lease.Milliseconds())
		}
	}
}

// A round that failed keeps no node for its minimum hold.
func TestRedLockRoundsThatFailKeepNothing(t *testing.T) {
	t.Parallel()
	b := newRedBench(t, newRedServers(t, 3))
	b.holdRaw(60*time.Second, "theirs", "theirs", "")
	given := b.proxies[2].Count(faults.Script(releaseScript.sha))
	require.ErrorIs(t, b.lock(b.clients, WithMinHold(redLease*9/10)).Lock(t.Context()), ErrLockAcquiredByOthers)
	require.True(t, b.proxies[2].Await(faults.Script(releaseScript.sha), given+1, queuePatience))
	eventually(t, redLease/2, func() bool { return b.holding() == 2 }, "kept for nobody")
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
			eventually(t, queuePatience, func() bool { return len(b.list(node)) == 1 && others[node].queue.hearing() }, "listed")
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
		p.On(faults.Script(redlockAcquireScript.sha), 1, faults.Delay(300*time.Millisecond))
	}
	for _, s := range b.servers {
		s.Do(t, "ZADD", b.prefix+"{k}"+endOfPlaces, 1, "gone:1:q")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 150*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, b.lock(b.clients).Lock(ctx), context.DeadlineExceeded)
	b.requireNobodyListed(b.clients)
	b.requireFree(2 * time.Second)
}

// A hold that is ended by force, on a quorum, is over at once, for that reason.
func TestRedLockEndedByForce(t *testing.T) {
	t.Parallel()
	b := newRedBench(t, newRedServers(t, 3))
	h, err := b.lock(b.others()).Acquire(t.Context())
	require.NoError(t, err)
	eventually(t, time.Second, func() bool { return b.holding() == 3 }, "all are there")
	for _, c := range b.others()[:2] {
		require.NoError(t, c.ForceUnlock(t.Context(), "k", "maintenance"))
	}
	err = endedWithin(t, h.Context(), redLease)
	require.ErrorIs(t, err, ErrLockLost)
	require.ErrorIs(t, err, ErrForced)
	require.ErrorContains(t, err, "maintenance")
	require.ErrorIs(t, h.Unlock(t.Context()), ErrLockLost)
	b.requireFree(time.Second)
}

// requireHeldBy waits until so many nodes are held.
func (b *redBench) requireHeldBy(n int) {
	b.Helper()
	eventually(b, queuePatience, func() bool { return b.holding() == n }, "held by others")
}

// A user who may name nothing but the lock can wait all the same, and one who may not list or tell.
func TestRedLockWaitsWithFewPermissions(t *testing.T) {
	t.Parallel()
	for name, rules := range map[string]func(prefix string) []any{
		"the lock alone": func(prefix string) []any { return []any{"resetkeys", "~" + prefix + "{k}"} },
		"no lists":       func(string) []any { return []any{"-zadd", "-time"} },
		"no messages":    func(string) []any { return []any{"-publish"} },
		"no channels":    func(string) []any { return []any{"resetchannels"} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newRedBench(t, newRedServers(t, 3))
			less := b.less(rules(b.prefix)...)
			last, err := b.lock(b.clients).Acquire(t.Context())
			require.NoError(t, err)
			var took []time.Duration
			for range 5 {
				w := b.wait(t.Context(), less, WithPollInterval(20*time.Millisecond))
				b.awaitAsked()
				next, d := b.granted(w, last)
				took = append(took, d)
				w = b.wait(t.Context(), b.clients, WithPollInterval(20*time.Millisecond))
				b.awaitListed(1, b.clients)
				last, _ = b.granted(w, next)
			}
			require.Less(t, middle(took), 200*time.Millisecond, "a period is %v", b.lock(less).part.period())
			require.NoError(t, last.Unlock(t.Context()))
			b.requireFree(time.Second)
		})
	}
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
	eventually(b, queuePatience, func() bool { return calls() >= before+2*len(b.servers) }, "asks")
}

// Without a subscription, and where it breaks, a call that waits asks by itself.
func TestRedLockWaiterWithoutSubscription(t *testing.T) {
	t.Parallel()
	b := newRedBench(t, newRedServers(t, 3))
	others := b.others()
	var took []time.Duration
	for range 5 {
		h, err := b.lock(b.clients).Acquire(t.Context())
		require.NoError(t, err)
		eventually(t, 5*time.Second, func() bool { return b.holding() == 3 }, "has all nodes")
		w := b.wait(t.Context(), others, WithPollInterval(20*time.Millisecond))
		for _, s := range b.servers {
			s.Do(t, "ACL", "SETUSER", "default", "-subscribe")
			s.Do(t, "CLIENT", "KILL", "TYPE", "pubsub")
		}
		for node, c := range others {
			eventually(t, queuePatience, func() bool { return len(b.list(node)) == 1 && !c.queue.hearing() }, "no subscription")
		}
		b.awaitAsked()
		next, d := b.granted(w, h)
		took = append(took, d)
		require.NoError(t, next.Unlock(t.Context()))
		b.requireFree(time.Second)
	}
	require.Less(t, middle(took), 200*time.Millisecond, "a period is %v", b.lock(others).part.period())
}

// Many that want the lock at once all get it, in turn.
func TestRedLockCrowd(t *testing.T) {
	t.Parallel()
	b := newRedBench(t, newRedServers(t, 3))
	inside := make(chan struct{}, 1)
	var done []<-chan error
	var all []*Client
	for range 4 {
		clients := b.others()
		all = append(all, clients...)
		l := b.lock(clients, WithBlock(), WithPollInterval(20*time.Millisecond))
		for range 5 {
			done = append(done, async(t, func() error {
				for range 4 {
					h, err := l.Acquire(t.Context())
					if err != nil {
						return err
					}
					select {
					case inside <- struct{}{}:
						<-inside
					default:
						return context.DeadlineExceeded // two at once
					}
					if err := h.Unlock(t.Context()); err != nil {
						return err
					}
				}
				return nil
			}))
		}
	}
	for _, one := range done {
		require.NoError(t, resultWithin(t, one, 60*time.Second))
	}
	b.requireNobodyListed(all)
	b.requireFree(time.Second)
}

// When a subscription comes, and when it goes, calls that wait look again: what happened before reached nobody.
func TestRedLockSubscriptionMakesCallsLook(t *testing.T) {
	t.Parallel()
	c := newTestClient(t, redistest.Start(t))
	w := &wait{again: make(chan struct{}, 1)}
	defer c.queue.deafen(c.queue.listen(w))
	looks := func(why string) {
		t.Helper()
		select {
		case <-w.again:
		case <-time.After(5 * time.Second):
			require.FailNow(t, why)
		}
	}
	c.queue.feed.confirmed()
	looks("it came")
	c.queue.feed.lost(errTimeout)
	looks("it went")
}
