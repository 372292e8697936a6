package lua_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/test/redistest"
)

// asideMost is how many tokens a grant sets aside, see fence.lua.
const asideMost = 63

// Each script that takes a lock draws a token, also when an earlier copy of it
// has taken the lock. Tokens rise, whatever becomes of the counter. Grants of
// an unfair plain lock set tokens aside, if the counter is not ahead of the
// clock.
func TestScriptsDrawTokens(t *testing.T) {
	plain, reentrant := WaitNamed("c1", 1, "pf"), WaitNamed("c1", 1, "rf")
	unfair := WaitNamed("c1", 1, "pu")
	reads, writes := WaitNamed("c1", 1, "sf"), WaitNamed("c1", 1, "wf")
	for name, tt := range map[string]struct {
		script script.Call
		ready  func(b *Queue) // before each call
		aside  int64
	}{
		"acquire":            {script: AcquireOf(Plain1, Plain2, LongLease), aside: asideMost},
		"reentrant_acquire":  {script: ReentrantAcquireOf(OwnerUs, Hold1, LongLease)},
		"reentrant_transfer": {script: TransferOf(Hold1, Hold2, LongLease), ready: func(b *Queue) { b.Ask(HeldOnce[0]) }},
		"try":                {script: plain.Try()},
		"try, unfair":        {script: unfair.Try(), aside: asideMost},
		"try, reentrant":     {script: reentrant.Try()},
		"enqueue":            {script: plain.Enqueue()},
		"enqueue, unfair":    {script: unfair.Enqueue(), aside: asideMost},
		"enqueue, reentrant": {script: reentrant.Enqueue()},
		"claim": {
			script: plain.Claim(), ready: func(b *Queue) { b.Do("SET", b.Key, plain.Reserved(), "PX", 20_000) },
		},
		"claim, unfair":   {unfair.Claim(), func(b *Queue) { b.Line(time.Minute, unfair) }, asideMost},
		"redlock_acquire": {script: redLock},
		"rw_try":          {script: writes.Try()},
		"rw_try, reads":   {script: reads.Try()},
		"rw_enqueue":      {script: writes.Enqueue()},
		"rw_claim":        {script: reads.Claim(), ready: func(b *Queue) { b.Line(time.Minute, reads) }},
	} {
		t.Run(name, func(t *testing.T) {
			b := NewQueue(t, server)
			b.Do("DEL", b.CounterKey())
			draw := func() (token, aside int64) {
				t.Helper()
				b.Do("DEL", b.Key, b.QueueKey(), b.HeartbeatsKey(), b.Key+script.HoldersSuffix)
				if tt.ready != nil {
					tt.ready(b)
				}
				before := b.Now()
				token, aside = requireTokens(b, tt.script)
				require.GreaterOrEqual(t, token, before)
				requireCounter(b.Bench, b.CounterKey(), token+aside)
				return token, aside
			}
			first, aside := draw()
			require.Equal(t, tt.aside, aside)
			again, _ := requireTokens(b, tt.script) // finds its own earlier copy
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

// requireTokens checks that the fenced script grants the lock. It returns the
// token, and how many after it are set aside.
func requireTokens(b *Queue, call script.Call) (token, aside int64) {
	b.Helper()
	answer := b.Ask(Fenced(call))
	require.Len(b, answer, 3)
	require.Equal(b, "1", answer[0])
	if call.Script == script.RedLockAcquire { // answer[1] is the server's id
		return number(b, answer[2]), 0
	}
	return number(b, answer[1]), number(b, answer[2])
}

// requireCounter checks the token in a counter, and that the counter stays for
// 30 days.
func requireCounter(b *Bench, key string, want int64) {
	b.Helper()
	require.Equal(b, fmt.Sprint(want), string(b.Do("GET", key).([]byte)))
	require.InDelta(b, 30*24*time.Hour, b.TTL(key), float64(time.Minute))
}

// A token that cannot be drawn makes no hold.
func TestNoHoldWithoutItsToken(t *testing.T) {
	s := redistest.Start(t)
	plain, reentrant, writes := WaitNamed("c1", 1, "pf"), WaitNamed("c1", 1, "rf"), WaitNamed("c1", 1, "wf")
	for name, call := range map[string]script.Call{
		"acquire":            AcquireOf(Plain1, Plain2, LongLease),
		"try":                plain.Try(),
		"enqueue":            plain.Enqueue(),
		"reentrant_acquire":  ReentrantAcquireOf(OwnerUs, Hold1, LongLease),
		"try, reentrant":     reentrant.Try(),
		"enqueue, reentrant": reentrant.Enqueue(),
		"rw_try":             writes.Try(),
		"rw_enqueue":         writes.Enqueue(),
	} {
		t.Run(name, func(t *testing.T) {
			b := NewQueue(t, s)
			b.Do("LPUSH", b.CounterKey(), "something else")
			b.Do("PEXPIRE", b.CounterKey(), 60_000)
			b.RequireError(Fenced(call), "WRONGTYPE")
			require.Empty(t, b.Lock())
			b.Clear()
			fillMemory(t, s)
			b.RequireError(Fenced(call), "OOM")
			require.Equal(t, int64(0), b.Do("EXISTS", b.Key, b.CounterKey()))
		})
	}
}

// The keys of a script are those of the lock's slot.
func TestCounterIsInTheSlot(t *testing.T) {
	for _, key := range (script.Call{Script: script.Claim.Fenced, Key: "p{k}"}).Keys() {
		require.True(t, strings.HasPrefix(key, "p{k}"), key)
	}
}

// Readers that are let in together do not run the counter ahead of the clock:
// when it is lost, the next token is higher than those of 2,000 owners. The
// server gets all in one go, so that the clock has no time to catch up.
func TestTokensBeyondThoseOfManyReaders(t *testing.T) {
	t.Parallel()
	b := NewQueue(t, redistest.Start(t))
	b.Do("SCRIPT", "LOAD", script.RWTry.Source)
	const readers = 2000
	tries := make([]script.Call, readers+1)
	for i := range tries {
		tries[i] = WaitNamed(fmt.Sprint("c", i), 1, "su").Try()
		tries[i].Key = b.Key
	}
	for i, try := range tries {
		if i == readers {
			require.NoError(t, b.Conn.Send("FLUSHALL"))
		}
		r := Fenced(try).ByDigest()
		require.NoError(t, b.Conn.Send(r.Cmd, r.Args...))
	}
	replies, err := redis.Values(b.Conn.Do(""))
	require.NoError(t, err)
	drawn := func(reply any) int64 {
		code, drawn := script.ReadGrant(reply)
		require.Equal(t, int64(script.OK), code, reply)
		return drawn.Fence
	}
	next := drawn(replies[readers+1])
	for _, reply := range replies[:readers] {
		require.Greater(t, next, drawn(reply))
	}
}

// A counter is raised, never lowered.
func TestScriptRaisesACounter(t *testing.T) {
	b := NewBench(t, server)
	raise := func(token ...any) error {
		_, err := b.Try(script.Call{Script: script.FenceRaise, Args: token})
		return err
	}
	const token = 1_763_760_000_000_000
	b.Do("DEL", b.Key)
	for _, tt := range []struct{ token, want int64 }{
		{token, token}, {token - 1, token}, {token, token}, {token + 1, token + 1},
	} {
		require.NoError(t, raise(tt.token))
		requireCounter(b, b.Key, tt.want)
	}
	for _, bad := range []any{"", "x", "0", "-1", "1.5", "12345678901234567"} {
		require.Error(t, raise(bad), "%v", bad)
	}
	require.Error(t, raise(), "no token")
}
