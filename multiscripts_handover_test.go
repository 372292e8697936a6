package relock

import (
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/script"
)

// multiHandOver runs the script of a MultiLock on a key with a queue, the one
// that the call was handed, and on another one before or behind it.
type multiHandOver struct {
	*queueScripts
	other string
	own   int // number of the key that was handed to the call
}

func newMultiHandOver(t testing.TB, s *redistest.Server, own int) *multiHandOver {
	b := &multiHandOver{queueScripts: newQueueScripts(t, s), own: own}
	b.other = b.key[:len(b.key)-1] + "2}"
	b.do("DEL", b.other)
	return b
}

// acquire returns the answer of a try under the value plain1, by a call that
// was handed its own key under earlier.
func (b *multiHandOver) acquire(earlier string) []int64 {
	b.Helper()
	locks := []string{b.key, b.other}
	if b.own == 2 {
		locks = []string{b.other, b.key}
	}
	r := script.MultiAcquire.BySource(append([]string{b.key, b.queue(), b.beats()}, locks...), []any{plain1, longLease.Milliseconds(), b.own, earlier, 2, "", 0})
	answer, err := redis.Int64s(b.conn.Do(r.Cmd, r.Args...))
	require.NoError(b, err)
	return answer
}

// The script that finds another key held hands over the key that the call was
// handed: to the next waiter, or to nobody.
func TestMultiScriptHandsOver(t *testing.T) {
	s := redistest.Shared(t)
	own, next := waitNamed("c9", 1, "pu"), waitNamed("c1", 1, "pu")
	for name, tt := range map[string]struct {
		own  int
		busy string
		want []int64
	}{
		"the first, the second is held":         {1, plain3, []int64{0, 2, 1}},
		"the second, the first is held":         {2, plain3, []int64{0, 1, 1}},
		"the first, the second is another kind": {1, "text", []int64{-1, 2, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newMultiHandOver(t, s, tt.own)
			b.do("SET", b.other, tt.busy, "PX", scriptLease.Milliseconds())
			require.Equal(t, "1", b.code(own.try()))
			require.Equal(t, tt.want, b.acquire(own.held()))
			require.Empty(t, b.lock(), "nobody waits")

			l := b.listen(s, "c1")
			require.Equal(t, "1", b.code(own.try()))
			b.show(map[string]shownBeat{"c1": {0, 1}})
			b.line(time.Minute, next)
			require.Equal(t, tt.want, b.acquire(own.held()))
			require.Equal(t, next.reserved(), b.lock())
			require.Equal(t, []string{string(next) + " " + b.key}, l.heard())
			require.Equal(t, []int64{0, 1}, b.acquire(own.held()), "a copy finds the first key taken")
			require.Equal(t, next.reserved(), b.lock())
			require.Equal(t, tt.busy, string(b.do("GET", b.other).([]byte)))
		})
	}
}

// What the call was handed and has lost is left to the next holder.
func TestMultiScriptHandsOverOnlyItsOwn(t *testing.T) {
	b := newMultiHandOver(t, redistest.Shared(t), 2)
	b.do("SET", b.other, plain3, "PX", scriptLease.Milliseconds())
	next := waitNamed("c1", 1, "pu")
	require.Equal(t, "1", b.code(next.try()))
	require.Equal(t, []int64{0, 1}, b.acquire(plain2))
	require.Equal(t, next.held(), b.lock())
}

// A hand-over behind more stale waits than one script examines says so.
func TestMultiScriptHandsOverPastManyStaleWaits(t *testing.T) {
	b := newMultiHandOver(t, redistest.Shared(t), 1)
	own := waitNamed("c9", 1, "pu")
	b.do("SET", b.other, plain3, "PX", scriptLease.Milliseconds())
	require.Equal(t, "1", b.code(own.try()))
	b.show(nil)
	b.line(time.Minute, staleWaits(129)...)
	require.Equal(t, []int64{0, 2, script.More}, b.acquire(own.held()))
	require.Empty(t, b.lock())
	require.Len(t, b.waits(), 1)
}
