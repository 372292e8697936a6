package relock

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/scripttest"
)

// asideMost is how many tokens a grant sets aside, see lua/fence.lua.
const asideMost = 63

// Each script that takes a lock draws a token, also when an earlier copy of it
// has taken the lock. Tokens rise, whatever becomes of the counter. Grants of
// an unfair plain lock set tokens aside, if the counter is not ahead of the
// clock.
func TestScriptsDrawTokens(t *testing.T) {
	s := redistest.Shared(t)
	plain, reentrant := scripttest.WaitNamed("c1", 1, "pf"), scripttest.WaitNamed("c1", 1, "rf")
	unfair := scripttest.WaitNamed("c1", 1, "pu")
	reads, writes := scripttest.RWWaitNamed("c1", 1, "sf"), scripttest.RWWaitNamed("c1", 1, "wf")
	for name, tt := range map[string]struct {
		script script.Call
		ready  func(b *scripttest.Queue) // before each call
		aside  int64
	}{
		"acquire":            {script: scripttest.AcquireOf(scripttest.Plain1, scripttest.Plain2, scripttest.LongLease), aside: asideMost},
		"reentrant_acquire":  {script: scripttest.ReentrantAcquireOf(scripttest.OwnerUs, scripttest.Hold1, scripttest.LongLease)},
		"reentrant_transfer": {script: scripttest.TransferOf(scripttest.Hold1, scripttest.Hold2, scripttest.LongLease), ready: func(b *scripttest.Queue) { b.Ask(scripttest.HeldOnce[0]) }},
		"try":                {script: plain.Try()},
		"try, unfair":        {script: unfair.Try(), aside: asideMost},
		"try, reentrant":     {script: reentrant.Try()},
		"enqueue":            {script: plain.Enqueue()},
		"enqueue, unfair":    {script: unfair.Enqueue(), aside: asideMost},
		"enqueue, reentrant": {script: reentrant.Enqueue()},
		"claim":              {script: plain.Claim(), ready: func(b *scripttest.Queue) { b.Do("SET", b.Key, plain.Reserved(), "PX", 20_000) }},
		"claim, unfair":      {unfair.Claim(), func(b *scripttest.Queue) { b.Line(time.Minute, unfair) }, asideMost},
		"rw_try":             {script: writes.Try()},
		"rw_try, reads":      {script: reads.Try()},
		"rw_enqueue":         {script: writes.Enqueue()},
		"rw_claim":           {script: reads.Claim(), ready: func(b *scripttest.Queue) { b.Line(time.Minute, reads.Wait) }},
	} {
		t.Run(name, func(t *testing.T) {
			b := scripttest.NewQueue(t, s)
			b.Do("DEL", b.CounterKey())
			draw := func() (token, aside int64) {
				t.Helper()
				b.Do("DEL", b.Key, b.QueueKey(), b.BeatsKey(), b.Key+script.HoldersSuffix)
				if tt.ready != nil {
					tt.ready(b)
				}
				before := b.Now()
				token, aside = b.RequireTokens(b.Ask(scripttest.Fenced(tt.script)))
				require.GreaterOrEqual(t, token, before)
				stored, err := redis.Int64(b.Do("GET", b.CounterKey()), nil)
				require.NoError(t, err)
				require.Equal(t, token+aside, stored)
				left, err := redis.Int64(b.Do("PTTL", b.CounterKey()), nil)
				require.NoError(t, err)
				require.InDelta(t, (30 * 24 * time.Hour).Milliseconds(), left, 60_000)
				return token, aside
			}
			first, aside := draw()
			require.Equal(t, tt.aside, aside)
			again, _ := b.RequireTokens(b.Ask(scripttest.Fenced(tt.script))) // finds its own earlier copy
			require.Greater(t, again, first+aside)
			b.Do("DEL", b.CounterKey())
			lost, aside := draw()
			require.Greater(t, lost, first)
			require.Equal(t, tt.aside, aside)
			ahead := b.Now() + time.Hour.Microseconds()
			b.Do("SET", b.CounterKey(), ahead)
			for n := range int64(2) {
				next, aside := draw()
				require.Equal(t, ahead+1+n, next)
				require.Zero(t, aside)
			}
		})
	}
}

// A token that cannot be drawn makes no hold.
func TestNoHoldWithoutItsToken(t *testing.T) {
	s := redistest.Start(t)
	for name, w := range map[string]interface {
		Try() script.Call
		Enqueue() script.Call
	}{"plain": scripttest.WaitNamed("c1", 1, "pf"), "reentrant": scripttest.WaitNamed("c1", 1, "rf"), "read/write": scripttest.RWWaitNamed("c1", 1, "wf")} {
		for call, script := range map[string]script.Call{"try": w.Try(), "enqueue": w.Enqueue()} {
			t.Run(name+"/"+call, func(t *testing.T) {
				b := scripttest.NewQueue(t, s)
				b.Do("LPUSH", b.CounterKey(), "something else")
				b.Do("PEXPIRE", b.CounterKey(), 60_000)
				_, err := b.Send(scripttest.Fenced(script))
				require.ErrorContains(t, err, "WRONGTYPE")
				require.Empty(t, b.Lock())
			})
		}
	}
	for name, script := range map[string]script.Call{"plain": scripttest.AcquireOf(scripttest.Plain1, scripttest.Plain2, scripttest.LongLease), "reentrant": scripttest.ReentrantAcquireOf(scripttest.OwnerUs, scripttest.Hold1, scripttest.LongLease)} {
		t.Run(name+"/acquire", func(t *testing.T) {
			b := scripttest.NewQueue(t, s)
			s.Do(t, "CONFIG", "SET", "maxmemory", "1")
			defer s.Do(t, "CONFIG", "SET", "maxmemory", "0")
			_, err := b.Send(scripttest.Fenced(script))
			require.ErrorContains(t, err, "OOM")
			require.Empty(t, b.Lock())
			require.Equal(t, int64(0), b.Do("EXISTS", b.CounterKey()))
		})
	}
}

// fencedKinds are the locks that have tokens.
func fencedKinds() map[string]func(c *Client, opts ...LockOption) acquirer {
	return map[string]func(c *Client, opts ...LockOption) acquirer{
		"RedisLock": func(c *Client, opts ...LockOption) acquirer {
			return NewRedisLock("fenced", c, append(opts, WithFencing())...)
		},
		"ReentrantLock": func(c *Client, opts ...LockOption) acquirer {
			return NewReentrantLock("fenced", c, append(opts, WithFencing())...)
		},
		"RWLock": func(c *Client, opts ...LockOption) acquirer {
			return NewRWLock("fenced", c, append(opts, WithFencing())...)
		},
		"RWLock, reading": func(c *Client, opts ...LockOption) acquirer {
			return reader{NewRWLock("fenced", c, append(opts, WithFencing())...)}
		},
	}
}

// reader acquires a lock to read.
type reader struct{ *RWLock }

func (r reader) Acquire(ctx context.Context) (Hold, error) { return r.RAcquire(ctx) }

type acquirer interface {
	Acquire(ctx context.Context) (Hold, error)
}

// Tokens rise from hold to hold: over clients, over holds that were lost, over a server that has lost everything.
func TestTokensRise(t *testing.T) {
	t.Parallel()
	for name, lock := range fencedKinds() {
		for mode, opts := range map[string][]LockOption{"unfair": nil, "fair": {WithFair()}, "waiting": {WithBlock()}} {
			t.Run(name+"/"+mode, func(t *testing.T) {
				t.Parallel()
				s := redistest.Start(t)
				a := newTestClient(t, s)
				clients := []*Client{a, sibling(t, s, a)}
				last := int64(0)
				for n := range 12 {
					h, err := lock(clients[n%2], opts...).Acquire(t.Context())
					require.NoError(t, err)
					require.Greater(t, h.Fence(), last)
					last = h.Fence()
					switch n % 4 {
					case 1:
						s.Do(t, "FLUSHALL")
						require.ErrorIs(t, h.Unlock(t.Context()), ErrLockLost)
					case 2:
						s.Do(t, "DEL", keyOf(a, "fenced")+":f")
						fallthrough
					default:
						require.NoError(t, h.Unlock(t.Context()))
					}
					require.Equal(t, last, h.Fence())
				}
			})
		}
	}
}

// A level inside has the token of the hold.
func TestReentryKeepsTheToken(t *testing.T) {
	t.Parallel()
	lock := NewReentrantLock("fenced", newTestClient(t, redistest.Start(t)), WithFencing())
	outer, err := lock.Acquire(t.Context())
	require.NoError(t, err)
	inner, err := lock.Acquire(outer.Context())
	require.NoError(t, err)
	require.Positive(t, outer.Fence())
	require.Equal(t, outer.Fence(), inner.Fence())
	require.NoError(t, inner.Unlock(t.Context()))
	require.NoError(t, outer.Unlock(t.Context()))
}

// Each of those who read together has a token of its own, which it keeps when it goes on to write.
func TestTokensOfReaders(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := newTestClient(t, s)
	lock := func(owner string) *RWLock { return owned(owner, NewRWLock("fenced", c, WithFencing())) }
	first, err := lock("a").RAcquire(t.Context())
	require.NoError(t, err)
	second, err := lock("b").RAcquire(t.Context())
	require.NoError(t, err)
	require.Positive(t, first.Fence())
	require.Greater(t, second.Fence(), first.Fence())
	require.NoError(t, first.Unlock(t.Context()))
	upgraded, err := lock("b").Acquire(t.Context())
	require.NoError(t, err)
	require.Equal(t, second.Fence(), upgraded.Fence())
	info, err := c.Inspect(t.Context(), "fenced")
	require.NoError(t, err)
	require.Equal(t, second.Fence(), info.Fence)
	require.NoError(t, upgraded.Unlock(t.Context()))
	require.NoError(t, second.Unlock(t.Context()))
	next, err := lock("a").Acquire(t.Context())
	require.NoError(t, err)
	require.Greater(t, next.Fence(), second.Fence())
	require.NoError(t, next.Unlock(t.Context()))
}

// Without the option there is no token, and no counter.
func TestNoTokenUnasked(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := newTestClient(t, s)
	h, err := NewRedisLock("plain", c, WithFair()).Acquire(t.Context())
	require.NoError(t, err)
	require.Zero(t, h.Fence())
	require.NoError(t, h.Unlock(t.Context()))
	require.Equal(t, int64(0), s.Do(t, "EXISTS", keyOf(c, "plain")+":f"))
}

// A lock that is passed on in memory has the next token of its block; when the block is used up, Redis grants it.
func TestPassedOnTokens(t *testing.T) {
	t.Parallel()
	q := newSeatBench(t)
	h, err := NewRedisLock(queueKey, q.clients[0], WithFencing()).Acquire(t.Context())
	require.NoError(t, err)
	w := q.sits(t.Context(), 0, WithFencing())
	fresh(h)
	q.unlock(h)
	next := w.granted()
	require.Same(t, h.(hold).level.Lease(), next.(hold).level.Lease())
	require.Equal(t, h.Fence()+1, next.Fence())

	l := next.(hold).level.Lease()
	l.Set(func(s *lease.State) { s.Aside = 0 })
	w = q.sits(t.Context(), 0, WithFencing())
	q.unlock(next)
	last := w.granted()
	require.NotSame(t, l, last.(hold).level.Lease())
	require.Greater(t, last.Fence(), h.Fence()+asideMost)
	unfenced := q.sits(t.Context(), 0)
	fresh(last)
	q.unlock(last)
	other := unfenced.granted()
	require.NotSame(t, last.(hold).level.Lease(), other.(hold).level.Lease())
	require.Zero(t, other.Fence())
	q.unlock(other)
	q.requireNothingLeft()
	q.requireNoLines()
}

// A reentrant lock that is transferred has the token that the transfer drew.
func TestTransferDrawsAToken(t *testing.T) {
	t.Parallel()
	q := newTransferBench(t)
	h := q.take(q.clients[0], WithFencing())
	w := q.sits(t.Context(), 0, WithFencing())
	fresh(h)
	q.unlock(h)
	next := w.granted()
	require.EqualValues(t, 1, leaseOf(next).State().Passes)
	require.Greater(t, next.Fence(), h.Fence())
	require.Equal(t, next.Fence(), inspect(t, q.clients[0], queueKey).Fence)
	q.unlock(next)
	q.requireNothingLeft()
}

// What a script answers is taken for a grant with a token only when it is one.
func TestReadGrant(t *testing.T) {
	for name, tt := range map[string]struct {
		reply  any
		code   int64
		tokens script.Tokens
	}{
		"a number":         {int64(1), script.Ours, script.Tokens{}},
		"held":             {int64(0), script.Other, script.Tokens{}},
		"a list":           {[]any{int64(1)}, script.Ours, script.Tokens{}},
		"a token":          {[]any{int64(1), []byte("1795292944255000"), int64(5)}, script.Ours, script.Tokens{Fence: 1795292944255000, Aside: 5}},
		"waits":            {[]any{int64(0), []byte("5"), int64(3), int64(2)}, script.Other, script.Tokens{}},
		"not a token":      {[]any{int64(1), []byte("x"), int64(5)}, script.Foreign, script.Tokens{}},
		"not a number":     {[]any{int64(1), []byte("1795292944255000"), []byte("x")}, script.Foreign, script.Tokens{}},
		"nothing":          {nil, script.Foreign, script.Tokens{}},
		"an empty list":    {[]any{}, script.Foreign, script.Tokens{}},
		"a list of others": {[]any{[]byte("x")}, script.Foreign, script.Tokens{}},
		"text":             {[]byte("OK"), script.Foreign, script.Tokens{}},
	} {
		t.Run(name, func(t *testing.T) {
			code, drawn := script.ReadGrant(tt.reply)
			require.Equal(t, tt.code, code)
			require.Equal(t, tt.tokens, drawn)
		})
	}
}

// The keys of a script are those of the lock's slot.
func TestCounterIsInTheSlot(t *testing.T) {
	for _, key := range (script.Call{Script: script.Claim.Fenced, Key: "p{k}"}).Keys() {
		require.True(t, strings.HasPrefix(key, "p{k}"), key)
	}
}
