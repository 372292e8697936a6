package proof

import (
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/faults"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

// pauseBench is a server, a proxy to it for the processes that are stopped, and
// a client without a proxy.
type pauseBench struct {
	*testing.T
	server   *redistest.Server
	proxy    *faults.Proxy
	digests  map[string]string
	client   *relock.Client
	path     string
	register *register
	lease    time.Duration
	waiting  sync.WaitGroup // goroutines of the test
}

func newPauseBench(t *testing.T, lease time.Duration) *pauseBench {
	server := redistest.Start(t)
	b := &pauseBench{T: t, server: server, lease: lease, digests: loadScripts(t, server)}
	t.Cleanup(b.waiting.Wait)
	b.client = newParentClient(t, server)
	b.proxy = faults.Start(t, server.Network, server.Address)
	b.path, b.register = newShared[register](t)
	return b
}

func (b *pauseBench) spawn(kind, key, mode string) *faults.Child {
	b.Helper()
	lease := strconv.FormatInt(b.lease.Milliseconds(), 10)
	return faults.Spawn(b, "holder", b.proxy.Network, b.proxy.Address, kind, key, lease, b.path, mode)
}

// script matches the calls of a script, of either kind of lock, for the key.
func (b *pauseBench) script(name, key string) faults.Match {
	return bothMatch(ofKey(key),
		eitherMatches(faults.Script(b.digests[name]), faults.Script(b.digests["reentrant_"+name])))
}

// expiry is when the key expires, by the server's clock in ms, or -2 if it is
// missing.
func (b *pauseBench) expiry(key string) int64 {
	b.Helper()
	at, err := redis.Int64(b.server.Do(b, "PEXPIRETIME", keyInRedis(key)), nil)
	require.NoError(b, err)
	return at
}

// content is all that the server has of the lock.
func (b *pauseBench) content(key string) string {
	b.Helper()
	return fmt.Sprintf("%s until %d", b.server.Content(b, keyInRedis(key)), b.expiry(key))
}

func (b *pauseBench) await(key string, there bool) {
	b.Helper()
	is := func() bool { return (b.expiry(key) >= 0) == there }
	testkit.Eventually(b, patience, is, fmt.Sprintf("key %s: there is %v", key, there))
}

// succeed takes the lock of another holder, for good.
func (b *pauseBench) succeed(kind, key string) relock.Hold {
	b.Helper()
	hold, err := newLockOf(kind, key, b.client, relock.WithExpiry(time.Minute)).Acquire(b.Context())
	require.NoError(b, err)
	return hold
}

// A holder that was stopped for longer than its lease finds the loss by its own
// clock. It does not change the next hold, and Unlock reports the loss. A write
// without a check of the hold is a stale write.
func TestStoppedHolder(t *testing.T) {
	t.Parallel()
	for _, kind := range kindsOfLocks {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			b := newPauseBench(t, 2*time.Second)
			child := b.spawn(kind, "k", "once")
			child.Send("acquire")
			first := section{process: 1, from: child.Next("acquire", patience).Int(2), tried: true, done: true}
			own := b.holdID("k")
			child.Send("check")
			check := child.Next("check", patience)
			require.Equal(t, "true", check.Values[1])
			first.checked, first.valid, first.until, first.read = check.Int(0), check.Int(2), check.Int(2), check.Int(3)

			renewal := b.renewalOf("k")
			stopped := halt{process: 1, from: faults.Now()}
			child.Stop()
			b.await("k", false)
			next := b.succeed(kind, "k")
			second := section{
				process: 2, from: faults.Now(), checked: faults.Now(), read: b.register.read(), tried: true, done: true,
			}
			second.before = b.register.write(second.read + 1)
			second.wrote, second.valid = faults.Now(), faults.Stamp(next.ValidUntil())
			content, sent := b.content("k"), len(b.proxy.Seen())
			// the server does not report the loss
			b.proxy.On(b.script("renew", "k"), faults.Every, faults.Delay(300*time.Millisecond))
			continued := faults.Now()
			child.Continue()
			stopped.until = faults.Now()
			lost := child.Next("lost", patience)

			child.Send("write")
			write := child.Next("write", patience)
			first.wrote, first.before = write.Int(0), write.Int(1)
			child.Send("unlock")
			require.Equal(t, []string{"true", "true"}, child.Next("unlock", patience).Values[:2], "ErrLockLost and ErrNotHeld")
			require.True(t, b.proxy.Await(b.script("release", "k"), 1, patience), "the clean-up is sent")
			child.End(patience)
			b.requireSoon(lost, continued, child.Events())
			b.requireHarmless(sent, own)
			require.Equal(t, int64(0), b.renewAgain(renewal, time.Hour), "a late copy of the renewal is refused")
			require.Equal(t, content, b.content("k"), "of the next holder")
			second.until = faults.Now()
			require.NoError(t, next.Unlock(t.Context()))

			v := judgeSections([]section{first, second}, []halt{stopped}, b.register.read())
			require.Equal(t, &verdict{increments: 2, stopped: 1, lost: 1}, v, "the stale write is seen as one")
		})
	}
}

// holdID identifies the holder at the server: the value of a plain lock, the
// hold id of a reentrant one.
func (b *pauseBench) holdID(key string) string {
	b.Helper()
	reply, err := b.server.Try(b, "GET", keyInRedis(key))
	if err != nil {
		reply = b.server.Do(b, "HGET", keyInRedis(key), "hold")
	}
	id, err := redis.String(reply, nil)
	require.NoError(b, err)
	require.NotEmpty(b, id)
	return id
}

// renewalOf waits for a renewal of the lock, and returns what was sent.
func (b *pauseBench) renewalOf(key string) []string {
	b.Helper()
	require.True(b, b.proxy.Await(b.script("renew", key), 1, patience))
	requests := b.proxy.Seen()
	return requests[slices.IndexFunc(requests, func(r faults.Request) bool { return b.script("renew", key)(r.Args) })].Args
}

// renewAgain sends a renewal once more, with a longer lease that would show an
// effect.
func (b *pauseBench) renewAgain(words []string, lease time.Duration) any {
	b.Helper()
	args := redis.Args{}.AddFlat(words[1 : len(words)-1]).Add(lease.Milliseconds())
	return b.server.Do(b, words[0], args...)
}

// requireSoon checks that the hold ended within 50 ms after its process
// continued, and three times the lateness of its timers. They measure that in
// the process itself.
func (b *pauseBench) requireSoon(lost faults.Event, continued int64, events []faults.Event) {
	b.Helper()
	require.Equal(b, "true", lost.Values[1], "the reason is ErrLockLost")
	slack := int64(0)
	for _, e := range eventsNamed(events, "late") {
		if e.Int(1) > continued && e.Int(0) < lost.Int(0) {
			slack = max(slack, e.Int(1)-max(e.Int(0), continued))
		}
	}
	took := lost.Int(0) - continued
	b.Logf("lost %s after it went on; other timers of the process fired up to %s late", millis(took), millis(slack))
	require.LessOrEqual(b, took, int64(50*time.Millisecond)+min(3*slack, int64(2*time.Second)))
}

// requireHarmless checks the requests of the process since then. None can
// change another hold, and none is a renewal, since its clock shows the loss.
func (b *pauseBench) requireHarmless(since int, own string) {
	b.Helper()
	for _, request := range b.proxy.Seen()[since:] {
		switch {
		case b.script("renew", "k")(request.Args):
			require.Fail(b, "a renewal after the end of the validity", "%v", request.Args)
		case b.script("release", "k")(request.Args):
		default:
			require.NotContains(b, request.Args, keyInRedis("k"), "%v", request.Args)
			continue
		}
		require.True(b, slices.Contains(request.Args, own), "it names its own hold: %v", request.Args)
	}
}

func eventsNamed(events []faults.Event, name string) (found []faults.Event) {
	for _, e := range events {
		if e.Name == name {
			found = append(found, e)
		}
	}
	return found
}
