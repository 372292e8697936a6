package lua_test

import (
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/scripttest"
)

// multiHandOver runs the script of a MultiLock on a key with a queue, the one
// that the call was handed, and on another one before or behind it.
type multiHandOver struct {
	*scripttest.Queue
	other string
	own   int // number of the key that was handed to the call
}

func newMultiHandOver(t testing.TB, s *redistest.Server, own int) *multiHandOver {
	b := &multiHandOver{Queue: scripttest.NewQueue(t, s), own: own}
	b.other = b.Key[:len(b.Key)-1] + "2}"
	b.Do("DEL", b.other)
	return b
}

// acquire returns the answer of a try under the value plain1, by a call that
// was handed its own key under earlier.
func (b *multiHandOver) acquire(earlier string) []int64 {
	b.Helper()
	locks := []string{b.Key, b.other}
	if b.own == 2 {
		locks = []string{b.other, b.Key}
	}
	r := script.MultiAcquire.BySource(append([]string{b.Key, b.QueueKey(), b.BeatsKey()}, locks...), []any{scripttest.Plain1, scripttest.LongLease.Milliseconds(), b.own, earlier, 2, "", 0})
	answer, err := redis.Int64s(b.Conn.Do(r.Cmd, r.Args...))
	require.NoError(b, err)
	return answer
}

// The script that finds another key held hands over the key that the call was
// handed: to the next waiter, or to nobody.
func TestMultiScriptHandsOver(t *testing.T) {
	s := redistest.Shared(t)
	own, next := scripttest.WaitNamed("c9", 1, "pu"), scripttest.WaitNamed("c1", 1, "pu")
	for name, tt := range map[string]struct {
		own  int
		busy string
		want []int64
	}{
		"the first, the second is held":         {1, scripttest.Plain3, []int64{0, 2, 1}},
		"the second, the first is held":         {2, scripttest.Plain3, []int64{0, 1, 1}},
		"the first, the second is another kind": {1, "text", []int64{-1, 2, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newMultiHandOver(t, s, tt.own)
			b.Do("SET", b.other, tt.busy, "PX", scripttest.Lease.Milliseconds())
			require.Equal(t, "1", b.Code(own.Try()))
			require.Equal(t, tt.want, b.acquire(own.Held()))
			require.Empty(t, b.Lock(), "nobody waits")

			l := b.Listen(s, "c1")
			require.Equal(t, "1", b.Code(own.Try()))
			b.Show(map[string]scripttest.Beat{"c1": {Age: 0, Counted: 1}})
			b.Line(time.Minute, next)
			require.Equal(t, tt.want, b.acquire(own.Held()))
			require.Equal(t, next.Reserved(), b.Lock())
			require.Equal(t, []string{string(next) + " " + b.Key}, l.Heard())
			require.Equal(t, []int64{0, 1}, b.acquire(own.Held()), "a copy finds the first key taken")
			require.Equal(t, next.Reserved(), b.Lock())
			require.Equal(t, tt.busy, string(b.Do("GET", b.other).([]byte)))
		})
	}
}

// What the call was handed and has lost is left to the next holder.
func TestMultiScriptHandsOverOnlyItsOwn(t *testing.T) {
	b := newMultiHandOver(t, redistest.Shared(t), 2)
	b.Do("SET", b.other, scripttest.Plain3, "PX", scripttest.Lease.Milliseconds())
	next := scripttest.WaitNamed("c1", 1, "pu")
	require.Equal(t, "1", b.Code(next.Try()))
	require.Equal(t, []int64{0, 1}, b.acquire(scripttest.Plain2))
	require.Equal(t, next.Held(), b.Lock())
}

// A hand-over behind more stale waits than one script examines says so.
func TestMultiScriptHandsOverPastManyStaleWaits(t *testing.T) {
	b := newMultiHandOver(t, redistest.Shared(t), 1)
	own := scripttest.WaitNamed("c9", 1, "pu")
	b.Do("SET", b.other, scripttest.Plain3, "PX", scripttest.Lease.Milliseconds())
	require.Equal(t, "1", b.Code(own.Try()))
	b.Show(nil)
	b.Line(time.Minute, scripttest.StaleWaits(129)...)
	require.Equal(t, []int64{0, 2, script.More}, b.acquire(own.Held()))
	require.Empty(t, b.Lock())
	require.Len(t, b.Waits(), 1)
}
