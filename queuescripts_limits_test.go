package relock

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/script"
)

// An unfair wait that is young is woken, and the lock is free meanwhile. One that is older, or fair, or from the future gets it reserved.
func TestQueueScriptShortWaits(t *testing.T) {
	s := redistest.Shared(t)
	holder := waitNamed("c9", 1, "pu")
	release := func(b *queueScripts, ago time.Duration, letters string) scriptWait {
		w := waitNamed("c1", 1, letters)
		b.do("DEL", b.key, b.queue(), b.beats())
		require.Equal(t, "1", b.code(holder.try()))
		b.show(map[string]shownBeat{"c1": {0, 1}})
		b.line(time.Minute, staleWaits(2)...)
		r := holder.release()
		r.Key = b.key
		args := r.BySource().Args
		// Both at once, so that a busy machine is not between them.
		b.do("MULTI")
		b.do("EVAL", "local t = redis.call('TIME') return redis.call('ZADD', KEYS[1], t[1] * 1000000 + t[2] - ARGV[1], ARGV[2])",
			1, b.queue(), ago.Microseconds(), string(w))
		b.do("EVAL", args...)
		replies, err := redis.Values(b.do("EXEC"), nil)
		require.NoError(t, err)
		require.Equal(t, []any{int64(1), int64(1)}, replies)
		return w
	}
	for _, letters := range []string{"pu", "ru"} {
		t.Run(letters, func(t *testing.T) {
			b := newQueueScripts(t, s)
			l := b.listen(s, "c1")
			w := waitNamed("c1", 1, letters)
			b.until(func() bool {
				release(b, 0, letters)
				require.Equal(t, []string{string(w) + " " + b.key}, l.heard(), "woken")
				return b.lock() == ""
			}, "it is only woken")
			b.requireHandedTo(nobody, []scriptWait{w})
			require.Equal(t, "1", b.code(w.claim()))
			require.Equal(t, w.held(), b.lock())
			require.Empty(t, b.waits())

			for _, ago := range []time.Duration{10*time.Millisecond + time.Microsecond, time.Minute, -time.Minute} {
				b.requireHandedTo(release(b, ago, letters), nil)
			}
		})
	}
	for _, letters := range []string{"pf", "rf"} {
		b := newQueueScripts(t, s)
		b.listen(s, "c1")
		b.requireHandedTo(release(b, 0, letters), nil)
	}
	t.Run("the first", func(t *testing.T) {
		b := newQueueScripts(t, s)
		w := waitNamed("c1", 1, "pu")
		b.show(map[string]shownBeat{"c1": {0, 0}})
		b.until(func() bool {
			b.do("DEL", b.key, b.queue())
			b.line(0, w)
			return b.ask(pollAs("c1"))[1] == string(w) && b.lock() == ""
		}, "the poll that wakes it names it")
		require.Equal(t, []string{string(w)}, b.waits())
	})
}

// No script looks at more than 128 waits. Whoever finds that there are more says so, and a cancel for nobody goes on.
func TestQueueScriptHandOverLimit(t *testing.T) {
	s := redistest.Shared(t)
	live, other, holder := waitNamed("c1", 1, "pf"), waitNamed("c2", 1, "pf"), waitNamed("c9", 1, "pf")
	reentrant := waitNamed("c9", 1, "rf")
	for _, tt := range []struct {
		name   string
		script script.Call
		held   scriptWait
	}{
		{"release", holder.release(), holder},
		{"reentrant_release", reentrant.release(), reentrant},
		{"cancel", holder.cancel(1), holder},
		{"cancel for nobody", nobody.cancel(0), nobody},
		{"try", other.try(), nobody},
		{"enqueue", other.enqueue(), nobody},
		{"claim", live.claim(), nobody},
		{"poll", pollAs("c2"), nobody},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newQueueScripts(t, s)
			if tt.held != nobody {
				require.Equal(t, "1", b.code(tt.held.try()))
			}
			b.show(map[string]shownBeat{"c1": {0, 0}})
			b.line(time.Minute, append(staleWaits(300), live)...)
			answer := b.ask(tt.script)
			require.Equal(t, "4", answer[0])
			require.Empty(t, b.lock())
			require.Equal(t, string(staleWaits(129)[128]), b.waits()[0])
			if tt.script.Script == script.Claim || tt.script.Script == script.Enqueue {
				require.Len(t, answer, 4)
				require.Equal(t, string(b.do("ZSCORE", b.queue(), tt.script.Args[0].(string)).([]byte)), answer[1])
				require.Equal(t, "-2", answer[2], "the lock is free")
			}
			require.Equal(t, "4", b.code(nobody.cancel(0)))
			require.Equal(t, string(staleWaits(257)[256]), b.waits()[0])
			require.Equal(t, "1", b.code(nobody.cancel(0)))
			require.Equal(t, live.reserved(), b.lock())
		})
	}
	for n, want := range map[int]string{127: live.reserved(), 128: "", 129: ""} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			b := newQueueScripts(t, s)
			require.Equal(t, "1", b.code(holder.try()))
			b.show(map[string]shownBeat{"c1": {0, 0}})
			b.line(time.Minute, append(staleWaits(n), live)...)
			require.Equal(t, want == "", b.code(holder.release()) == "4")
			require.Equal(t, want, b.lock())
			require.Equal(t, want == "", slices.Contains(b.waits(), string(live)))
		})
	}
	t.Run("128 and no more", func(t *testing.T) {
		b := newQueueScripts(t, s)
		require.Equal(t, "1", b.code(holder.try()))
		b.show(nil)
		b.line(time.Minute, staleWaits(128)...)
		require.Equal(t, "1", b.code(holder.release()))
		b.requireHandedTo(nobody, nil)
	})
}
