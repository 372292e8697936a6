package lua_test

import (
	"slices"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/script"
)

// All keys are taken or none, whatever they hold. A copy that comes late
// shortens nothing and takes nothing away.
func TestMultiScript(t *testing.T) {
	const fair, kept, reserved = "relock/1|f|h4|c4|host|4|label|4", "relock/1|k|h5|c5|host|5|label|5",
		"relock/1|w|c6:1:pu:1250"
	const fairWait, reenter = "relock/1|w|c6:2:pf:1250", "relock/1|w|c6:3:ru:1250"
	for _, tt := range []struct {
		name    string
		before  []string
		own     int
		earlier string
		want    []int64
	}{
		{"all are free", []string{"", "", ""}, 0, "", []int64{1}},
		{"all are ours", []string{Plain1, Plain1, Plain1}, 0, "", []int64{1}},
		{"some are ours", []string{"", Plain1, ""}, 0, "", []int64{1}},
		{"the first is held", []string{Plain3, "", ""}, 0, "", []int64{0, 1, 0}},
		{"the last is held", []string{"", "", Plain3}, 0, "", []int64{0, 3, 0}},
		{"two are held", []string{"", Plain3, Plain3}, 0, "", []int64{0, 2, 0}},
		{"held and ours", []string{Plain1, Plain3, ""}, 0, "", []int64{0, 2, 0}},
		{"kept", []string{"", kept, ""}, 0, "", []int64{2, 2, 0}},
		{"reserved", []string{reserved, "", ""}, 0, "", []int64{0, 1, 0}},
		{"held by a fair call", []string{"", "", fair}, 0, "", []int64{0, 3, 0}},
		{"reserved for a fair one", []string{fairWait, "", ""}, 0, "", []int64{0, 1, 0}},
		{"reserved for a reentrant one", []string{"", reenter, ""}, 0, "", []int64{-1, 2, 0}},
		{"something else", []string{"", "text", ""}, 0, "", []int64{-1, 2, 0}},
		{"another type", []string{"", "hash", Plain3}, 0, "", []int64{-1, 2, 0}},
		{"ours, and another type", []string{Plain1, "", "hash"}, 0, "", []int64{-1, 3, 0}},
		{"the call has one by itself", []string{"", Plain2, ""}, 2, Plain2, []int64{1}},
		{"that one has ended", []string{"", "", ""}, 2, Plain2, []int64{1}},
		{"that one is another's now", []string{"", Plain3, ""}, 2, Plain2, []int64{0, 2, 0}},
		{"it is on another key", []string{"", Plain2, ""}, 3, Plain2, []int64{0, 2, 0}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := NewMulti(t, server, 3)
			b.Put(tt.before...)
			require.Equal(t, tt.want, b.Acquire(Plain1, LongLease, tt.own, tt.earlier))
			if tt.want[0] != 1 {
				require.Equal(t, tt.before, b.Holds())
				for n, value := range tt.before {
					if value != "" && value != "hash" {
						RequireExpiry(t, Lease, b.TTL(b.Keys[n]))
					}
				}
				return
			}
			require.Equal(t, []string{Plain1, Plain1, Plain1}, b.Holds())
			require.Equal(t, []int64{1}, b.Acquire(Plain1, Lease, tt.own, tt.earlier), "a late copy")
			for _, key := range b.Keys {
				RequireExpiry(t, LongLease, b.TTL(key))
			}
		})
	}
}

// wayKeep is how long keys are kept in these tests.
const wayKeep = 5 * time.Second

// A try that keeps keys keeps those before the first one that is held, under
// its own value. Nothing behind that one is taken.
func TestMultiScriptKeeps(t *testing.T) {
	const kept, handed = "relock/1|p|kept|c9|host|9|label|9", "relock/1|p|c9:1|c9|host|9|label|9"
	for _, tt := range []struct {
		name   string
		before []string
		own    int
		want   []int64
		after  []string
	}{
		{"free ones", []string{"", "", Plain3, ""}, 0, []int64{0, 3, 0}, []string{Plain1, Plain1, Plain3, ""}},
		{"nothing", []string{Plain3, "", "", ""}, 0, []int64{0, 1, 0}, []string{Plain3, "", "", ""}},
		{"kept before", []string{kept, kept, Plain3, ""}, 0, []int64{0, 3, 0}, []string{Plain1, Plain1, Plain3, ""}},
		{"the one that it was handed", []string{kept, handed, Plain3, ""}, 2, []int64{0, 3, 0}, []string{
			Plain1, Plain1, Plain3, "",
		}},
		{"not the one that it was handed behind", []string{kept, Plain3, handed, ""}, 3, []int64{0, 2, 1}, []string{
			Plain1, Plain3, "", "",
		}},
		{"kept ones behind are left to the caller", []string{"", Plain3, kept, ""}, 0, []int64{0, 2, 0}, []string{
			Plain1, Plain3, kept, "",
		}},
		{"nothing before another kind", []string{kept, handed, "text", ""}, 2, []int64{-1, 3, 1}, []string{
			kept, "", "text", "",
		}},
		{"all, for the hold", []string{kept, kept, handed, ""}, 3, []int64{1}, []string{Plain1, Plain1, Plain1, Plain1}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := NewMulti(t, server, 4)
			b.Put(tt.before...)
			require.Equal(t, tt.want, b.AcquireOrKeep(Plain1, LongLease, tt.own, handed, kept, wayKeep))
			require.Equal(t, tt.after, b.Holds())
			lasts := map[bool]time.Duration{true: LongLease, false: wayKeep}[tt.want[0] == 1]
			for n, value := range tt.after {
				if value == Plain1 {
					RequireExpiry(t, lasts, b.TTL(b.Keys[n]))
				}
			}
		})
	}
}

// A late copy of a try that keeps keys shortens no lease of the hold that came
// of the same value, and takes nothing from the call's later tries.
func TestMultiScriptLateCopiesOfAKeep(t *testing.T) {
	b := NewMulti(t, server, 3)
	require.Equal(t, []int64{1}, b.AcquireOrKeep(Plain1, LongLease, 0, "", "", wayKeep))
	b.Do("SET", b.Keys[2], Plain3, "PX", Lease.Milliseconds())
	require.Equal(t, []int64{0, 3, 0}, b.AcquireOrKeep(Plain1, LongLease, 0, "", "", wayKeep))
	RequireExpiry(t, LongLease, b.TTL(b.Keys[0]))
	RequireExpiry(t, LongLease, b.TTL(b.Keys[1]))

	b.Put("", "", Plain3)
	require.Equal(t, []int64{0, 3, 0}, b.AcquireOrKeep(Plain1, LongLease, 0, "", "", wayKeep))
	b.Do("DEL", b.Keys[2])
	require.Equal(t, []int64{1}, b.AcquireOrKeep(Plain2, LongLease, 0, "", Plain1, wayKeep))
	require.Equal(t, []int64{0, 1, 0}, b.AcquireOrKeep(Plain1, LongLease, 0, "", "", wayKeep), "late")
	require.Equal(t, []string{Plain2, Plain2, Plain2}, b.Holds())
	RequireExpiry(t, LongLease, b.TTL(b.Keys[0]))
}

// An empty string of another program is not taken for a key that is kept.
func TestMultiScriptLeavesAnEmptyString(t *testing.T) {
	b := NewMulti(t, server, 2)
	b.Do("SET", b.Keys[1], "")
	require.Equal(t, []int64{-1, 2, 0}, b.AcquireOrKeep(Plain1, LongLease, 0, "", "", wayKeep))
	require.Equal(t, int64(1), b.Do("EXISTS", b.Keys[0], b.Keys[1]))
}

// A call that finds another key held hands off the key that it was handed: to
// the next waiter, or to nobody. It leaves what it has lost to the next holder.
func TestMultiScriptHandsOff(t *testing.T) {
	handed, next := WaitNamed("c9", 1, "pu"), WaitNamed("c1", 1, "pu")
	for name, tt := range map[string]struct {
		own  int
		busy string
		want []int64
	}{
		"the first, the second is held":         {1, Plain3, []int64{0, 2, 1}},
		"the second, the first is held":         {2, Plain3, []int64{0, 1, 1}},
		"the first, the second is another kind": {1, "text", []int64{-1, 2, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			b := NewMulti(t, server, 2)
			if tt.own == 2 {
				slices.Reverse(b.Keys)
			}
			b.Put(tt.busy, tt.busy)
			acquire := func(earlier string) []int64 {
				return b.Acquire(Plain1, LongLease, tt.own, earlier)
			}
			hand := func(w Wait) {
				b.Do("DEL", b.Key)
				b.RequireDone(w.Try())
			}
			hand(handed)
			require.Equal(t, tt.want, acquire(handed.Held()))
			require.Empty(t, b.Lock(), "nobody waits")

			l := b.Listen("c1")
			hand(handed)
			b.Show(map[string]Heartbeat{"c1": {Age: 0, Counted: 1}})
			b.Line(time.Minute, next)
			require.Equal(t, tt.want, acquire(handed.Held()))
			require.Equal(t, next.Reserved(), b.Lock())
			require.Equal(t, []string{string(next) + " " + b.Key}, l.Heard())
			require.Equal(t, []int64{0, 1, 0}, acquire(handed.Held()), "a copy finds the first key taken")
			require.Equal(t, next.Reserved(), b.Lock())

			hand(next)
			require.Equal(t, []int64{0, 1, 0}, acquire(Plain2), "it is the next holder's")
			require.Equal(t, next.Held(), b.Lock())
			require.Equal(t, tt.busy, b.Holds()[2-tt.own])

			hand(handed)
			b.Queued(StaleWaits(129, "pf")...)
			require.Equal(t, append(tt.want[:2:2], script.ScanLimit), acquire(handed.Held()))
			require.Empty(t, b.Lock())
			require.Len(t, b.Waits(), 1)
		})
	}
}

// All keys get one token, which is above the last of each counter. A call that
// is refused draws none.
func TestMultiScriptDrawsOneToken(t *testing.T) {
	b := NewMulti(t, server, 6)
	locks, counters := b.Keys[:3], b.Keys[3:]
	ahead := time.Now().Add(time.Hour).UnixMicro()
	b.Do("MSET", counters[1], ahead, counters[2], 7)
	acquire := func(value string) []int64 {
		answer, err := redis.Int64s(b.Try(b.Keys, value, 60_000, 0, "", 3, "", 0))
		require.NoError(t, err)
		return answer
	}
	draw := func() int64 {
		t.Helper()
		answer := acquire(Plain1)
		require.Len(t, answer, 2)
		require.Equal(t, int64(1), answer[0])
		for _, counter := range counters {
			requireCounter(b.Bench, counter, answer[1])
		}
		return answer[1]
	}
	require.Equal(t, ahead+1, draw())
	require.Equal(t, ahead+2, draw(), "sent twice")
	b.Do("DEL", counters[0], counters[1], counters[2])
	last := draw()
	require.InDelta(t, time.Now().UnixMicro(), last, float64(time.Minute.Microseconds()))

	b.Do("SET", locks[2], Plain3, "PX", 20_000)
	require.Equal(t, int64(0), acquire(Plain2)[0])
	requireCounter(b.Bench, counters[0], last)
}

// A counter that holds something else makes no hold, and is left as it is.
func TestMultiScriptNoHoldWithoutItsToken(t *testing.T) {
	b := NewMulti(t, server, 6)
	b.Do("LPUSH", b.Keys[4], "something else")
	_, err := b.Try(b.Keys, Plain1, 60_000, 0, "", 3, "", 0)
	require.ErrorContains(t, err, "WRONGTYPE")
	require.Equal(t, int64(1), b.Do("EXISTS", redis.Args{}.AddFlat(b.Keys)...))
	require.Equal(t, int64(1), b.Do("LLEN", b.Keys[4]))
}
