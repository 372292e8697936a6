package lua_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/test/testkit"
)

// worker and other are receivers of two clients.
const (
	worker = "c1:7"
	other  = "c2:1"
)

// Tasks are due in the order of their Enqueue, also within one script. Those of
// a key are behind the first of them, in order after the clock went back, too.
func TestTaskEnqueueScriptOrder(t *testing.T) {
	b := NewTasks(t, server)
	b.Enqueue("", "z", "a")
	b.Enqueue("", "m")
	b.Enqueue("", "b", "y")
	require.Equal(t, []string{"z", "a", "m", "b", "y"}, b.Members("d"))
	require.Equal(t, int64(0), b.Do("EXISTS", b.Key("n")), "no order, no number")

	b.Enqueue("k", "head", "9")
	b.EnqueueIn(time.Minute, "k", "late")
	b.Do("SET", b.Key("n"), b.Now()+3600_000_000) // as after a clock that went back
	b.Enqueue("k", "5", "4")
	b.Enqueue("k", "6")
	require.Equal(t, []string{"9", "5", "4", "6"}, b.BehindTask("head"), "the first one of the key is due")
	require.Equal(t, []byte("6"), b.Do("HGET", b.Key("k"), "k"))
	require.Equal(t, []string{"z", "a", "m", "b", "y", "head"}, b.Members("d"))
	require.Equal(t, []string{"late"}, b.Members("w"), "it does not join its key before it is due")
	require.InDelta(t, b.Now()+60_000_000, b.Score("w", "late"), slack)
	b.Do("SET", b.Key("n"), 5) // an old one
	b.Enqueue("k2", "later")
	require.LessOrEqual(t, b.Score("d", "later"), b.Now())
	require.Greater(t, b.Do("PTTL", b.Key("n")), int64(29*24*time.Hour/time.Millisecond))
}

// The two scripts that put tasks: put is for those without a key.
var putScripts = []struct {
	name   string
	script *script.TaskScript
	of     func(delay time.Duration, ids ...string) []any
}{
	{"put", script.TaskPut, PutOf},
	{"enqueue", script.TaskEnqueue, func(delay time.Duration, ids ...string) []any {
		return EnqueueOf(delay, "", ids...)
	}},
}

// An id that is in use is refused, by either script. A copy of the same call is
// not.
func TestTaskEnqueueScriptCopies(t *testing.T) {
	for _, put := range putScripts {
		t.Run(put.name, func(t *testing.T) {
			b := NewTasks(t, server)
			first := put.of(0, "z", "a")
			require.Equal(t, []int64{1, 1}, b.Ints(put.script, first...))
			score := b.Score("d", "a")
			require.Equal(t, []int64{1, 1}, b.Ints(put.script, first...), "a copy")
			require.Equal(t, []string{"z", "a"}, b.Members("d"))
			require.Equal(t, score, b.Score("d", "a"), "the copy changes nothing")
			for _, other := range putScripts {
				second := other.of(0, "a", other.name)
				second[0] = Nonce(1)
				require.Equal(t, []int64{0, 1}, b.Ints(other.script, second...), "another call")
			}
			one := put.of(0, "one")
			require.Equal(t, []int64{1}, b.Ints(put.script, one...))
			require.Equal(t, []int64{1}, b.Ints(put.script, one...), "a copy")
			require.InDelta(t, b.Now(), b.Score("d", "one"), slack)
			got := b.Receive(Receive{Receiver: worker, N: 1, Want: 10})
			require.Equal(t, []string{"z", "a", "put", "enqueue", "one"}, got.IDs())
			for _, d := range got.All {
				require.True(t, strings.HasSuffix(d.Record, Body("")))
			}
			require.Equal(t, []int64{1, 1}, b.Ints(put.script, first...), "a copy while it is in flight")
			first[0] = Nonce(1)
			require.Equal(t, []int64{0, 0}, b.Ints(put.script, first...), "another call")
		})
	}
	b := NewTasks(t, server)
	first := EnqueueOf(0, "k", "a", "b")
	for range 2 {
		require.Equal(t, []int64{1, 1}, b.Ints(script.TaskEnqueue, first...))
		require.Equal(t, []string{"a"}, b.Members("d"))
		require.Equal(t, []string{"b"}, b.BehindTask("a"))
	}
}

// A task that is due soon wakes one idle receiver, the last one that has asked
// first. Those that nobody hears for, or that have not asked for long, are
// passed over.
func TestTaskEnqueueScriptWakes(t *testing.T) {
	for _, put := range putScripts {
		t.Run(put.name, func(t *testing.T) {
			b := NewTasks(t, server)
			l1, l2 := b.Listen("c1"), b.Listen("c2")
			idle := func(ago time.Duration, receiver string) {
				b.Do("ZADD", b.Key("i"), b.Now()-ago.Microseconds(), receiver)
			}
			enqueue := func(delay time.Duration, ids ...string) { b.Ints(put.script, put.of(delay, ids...)...) }
			enqueue(0, "unheard")
			idle(3*time.Second, "c2:9") // too long ago
			for i := range 2000 {
				idle(time.Minute, fmt.Sprint("killed:", i))
			}
			idle(900*time.Millisecond, "crashed:1") // nobody hears it
			idle(time.Second, worker)
			idle(2*time.Second, other)
			enqueue(0, "a")
			require.Equal(t, []string{"tasks:" + worker + " " + b.Q}, l1.Heard())
			require.NotContains(t, b.Members("i"), "crashed:1")
			require.NotContains(t, b.Members("i"), worker)
			require.Empty(t, l2.Heard())

			before := b.Now()
			enqueue(1500*time.Millisecond, "late")
			require.Empty(t, l2.Heard(), "a poll finds it in time")
			requireDue(t, b, before, 1_500_000, "late")
			enqueue(900*time.Millisecond, "soon")
			require.Equal(t, []string{"tasks:" + other + " " + b.Q}, l2.Heard())

			idle(0, worker)
			idle(0, other)
			b.Enqueue("k", "1", "2", "3")
			require.Equal(t, 1, len(l1.Heard())+len(l2.Heard()), "one task of the key is due")
			idle(0, worker)
			idle(0, other)
			enqueue(0, "b1", "b2", "b3")
			require.Len(t, l1.Heard(), 1)
			require.Len(t, l2.Heard(), 1)

			for i := range 17 {
				idle(0, fmt.Sprintf("crashed:%d", 100+i))
			}
			enqueue(0, "c")
			require.Equal(t, 1, strings.Count(strings.Join(b.Members("i"), " "), "crashed:"), "16 are tried")
		})
	}
}

// A time of less than 100 ms beside the seconds has 6 digits, too.
func TestTaskPutScriptDigits(t *testing.T) {
	b := NewTasks(t, server)
	testkit.Eventually(t, testkit.Patience, func() bool {
		now := b.Now()
		id := fmt.Sprint(now)
		require.Equal(t, []int64{1}, b.Ints(script.TaskPut, PutOf(0, id)...))
		require.InDelta(t, now, b.Score("d", id), 5e6)
		return now%1_000_000 < 90_000
	}, "a time shortly after a second")
}

// An id that is done is refused as long as the one that has done it said.
func TestTaskEnqueueScriptUnique(t *testing.T) {
	b := NewTasks(t, server)
	again := EnqueueOf(0, "", "a")
	again[1] = 1
	b.Enqueue("", "a")
	d := b.Receive(Receive{Receiver: worker, N: 1, Want: 1}).All[0]
	require.Equal(t, []int64{1}, b.Ints(script.TaskSettle, SettleOf(time.Minute, d, "a", "")...))
	require.Equal(t, []int64{0}, b.Ints(script.TaskEnqueue, again...))
	b.Do("ZADD", b.Key("u"), b.Now(), "a") // until now
	require.Equal(t, []int64{1}, b.Ints(script.TaskEnqueue, again...))
	b.Do("ZADD", b.Key("u"), b.Now()+60_000_000, "b")
	b.Enqueue("", "b") // whose call does not ask
	again[2] = "c"
	require.Equal(t, []int64{1}, b.Ints(script.TaskEnqueue, again...), "never seen")
}

// A bad argument is refused before anything is written.
func TestTaskScriptsRefuseBadArguments(t *testing.T) {
	b := NewTasks(t, server)
	fence := int64(1764000000000000)
	receive := Receive{Receiver: worker, N: 1, Want: 1}.Args()
	settle := SettleOf(0, Delivery{ID: "a", Fence: fence}, "a", "")
	retry := SettleOf(0, Delivery{ID: "a", Fence: fence}, "n", 10)
	release := SettleOf(0, Delivery{ID: "a", Fence: fence}, "r", 10)
	enqueue := EnqueueOf(0, "k", "a")
	for _, tt := range []struct {
		name   string
		script *script.TaskScript
		args   []any
		bad    map[int][]any // by the number of the argument
	}{
		{"enqueue", script.TaskEnqueue, enqueue, map[int][]any{
			0: {"", "short", "too long a nonce"}, 1: {"", "2"}, 2: {""}, 3: {"", "-1", "x", "1.5"},
			4: {"", "00001", "000x01k", "000002k", "000002\x00k", "001b001k"},
		}},
		{"put", script.TaskPut, PutOf(0, "a"), map[int][]any{
			0: {"", "short"}, 1: {""}, 2: {"", "-1", "x", "1.5", strings.Repeat("9", 16)}, 3: {"", "00", "00000", "000001k"},
		}},
		{"receive", script.TaskReceive, receive, map[int][]any{
			0: {"", "c1", "c1:", ":1", "c1:x"},
			1: {"", "0", "x"}, 2: {"", "x"}, 3: {"", "65", "-1"}, 4: {"", "9"},
			5: {"", "0"}, 6: {"", "-1"}, 7: {"", "x"}, 8: {"", "2"}, 9: {"", "3"}, 10: {"", "x"}, 11: {"", "0", "x"},
			13: {"", "t", "/who", "t-/who", "t/who else"},
		}},
		{"settle", script.TaskSettle, settle, map[int][]any{
			0: {"", "x"}, 1: {"", "x"}, 2: {"", "x"}, 3: {"", "2"}, 4: {""},
			5: {"", "0", "0@t", "x", "-1", "5", "5@", "5@t/"}, 6: {"", "x", "ab"},
		}},
		{"settle, again later", script.TaskSettle, retry, map[int][]any{7: {"", "x", "-1", "5 ", " why", "x why"}}},
		{"settle, released", script.TaskSettle, release, map[int][]any{7: {"", "x", "-1"}}},
		{
			"renew", script.TaskRenew,
			[]any{"a", fmt.Sprint(fence, "@t"), 1000},
			map[int][]any{0: {""}, 1: {"", "0", "0@t", "x", "5", "5@", "5@-"}, 2: {"", "9", "x"}},
		},
		{"remove", script.TaskRemove, []any{"a"}, map[int][]any{0: {""}}},
		{"dead", script.TaskDead, []any{0, 1, 10, 1000, 100}, map[int][]any{
			0: {"", "x"}, 1: {"", "0", "65", "x"}, 2: {"", "x"}, 3: {"", "-1"}, 4: {"", "0"},
		}},
		{
			"requeue died", script.TaskRequeueDied,
			[]any{0, 9, 10, 1000},
			map[int][]any{0: {"", "x", "-1"}, 1: {"", "x"}, 2: {"", "x"}, 3: {"", "-1"}},
		},
		{"stats", script.TaskStats, []any{10, 1000}, map[int][]any{0: {"", "x"}, 1: {"", "-1"}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			refused := func(args []any) {
				t.Helper()
				_, err := b.Try(tt.script, worker, args...)
				require.ErrorContains(t, err, "bad arguments", "%q", args)
				require.Empty(t, b.Do("KEYS", b.Q+"*"))
			}
			_, err := b.Try(tt.script, worker, tt.args...)
			require.NoError(t, err)
			b.Flush()
			for i, values := range tt.bad {
				for _, value := range values {
					args := append([]any(nil), tt.args...)
					args[i] = value
					refused(args)
				}
			}
			if tt.script != script.TaskReceive {
				refused(append(append([]any(nil), tt.args...), "more"))
			}
			for n := range tt.args {
				refused(tt.args[:n])
			}
		})
	}
	for _, n := range []int{0, 65} {
		_, err := b.Try(script.TaskRequeue, "", make([]any, n)...)
		require.ErrorContains(t, err, "bad arguments")
	}
	_, err := b.Try(script.TaskRemove, "", "a", "b")
	require.ErrorContains(t, err, "bad arguments")
}
