package lua_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/scripttest"
)

func number(t testing.TB, text string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(text, 10, 64)
	require.NoError(t, err)
	return n
}

// Queue time goes on with the server's clock, by a period between two beats at
// most, and never back.
func TestQueueScriptTime(t *testing.T) {
	s := redistest.Shared(t)
	const second = int64(1_000_000)
	for _, tt := range []struct {
		name     string
		last     string // the last beat of anyone; # is the server's time
		min, max int64  // how much further queue time is
	}{
		{"none", "", 0, 0},
		{"not one", "5:5", 0, 0},
		{"the server stood still for an hour", "#-3600000000:5000000:1000000", 5 * second, 5 * second},
		{"the clock jumped back by an hour", "#+3600000000:5000000:1000000", 4 * second, 4 * second},
		{"half a period went by", "#-500000:5000000:1000000", 4*second + second/2, 5 * second},
		{"a tenth of a long period went by", "#-6000000:5000000:60000000", 10 * second, 64 * second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := scripttest.NewQueue(t, s)
			b.Do("SET", b.Key, scripttest.WaitNamed("c9", 1, "pf").Held(), "PX", 20_000)
			b.Line(0, scripttest.WaitNamed("c9", 2, "pf"))
			b.Do("HSET", b.BeatsKey(), "other", "0:1000000:1")
			b.Do("PEXPIRE", b.BeatsKey(), 20_000)
			now := b.Now()
			if tt.last != "" {
				at, rest, _ := strings.Cut(tt.last, ":")
				if shift, ok := strings.CutPrefix(at, "#"); ok {
					at = fmt.Sprint(now + number(t, shift))
				}
				b.Do("HSET", b.BeatsKey(), "a", at+":"+rest)
			}
			require.Equal(t, "1", b.Code(scripttest.PollAs("c1")))
			after := b.Now()
			last := strings.Split(b.Field("a"), ":")
			require.Len(t, last, 3)
			require.GreaterOrEqual(t, number(t, last[0]), now)
			require.LessOrEqual(t, number(t, last[0]), after)
			require.Equal(t, "1000000", last[2])
			require.Equal(t, last[1]+":1000000:0", b.Field("c1"), "its beat is now")
			base := int64(0)
			if tt.max > 0 {
				base = 1 * second
			}
			require.GreaterOrEqual(t, number(t, last[1]), base+tt.min)
			require.LessOrEqual(t, number(t, last[1]), base+tt.max)
		})
	}
}

// A pause of the server, and a jump of its clock either way, make nobody stale
// that has not had the time to show itself.
func TestQueueScriptTimePassesOverPauses(t *testing.T) {
	s := redistest.Shared(t)
	w, holder := scripttest.WaitNamed("c1", 1, "pf"), scripttest.WaitNamed("c9", 1, "pf")
	const hour = int64(3600_000_000)
	for name, last := range map[string]int64{"pause": -hour, "jump forward": -24 * hour, "jump back": 24 * hour} {
		for age, chosen := range map[int64]bool{0: true, 1_500_000: true, 2_500_001: false} {
			t.Run(fmt.Sprint(name, " ", age), func(t *testing.T) {
				b := scripttest.NewQueue(t, s)
				b.Do("SET", b.Key, holder.Held(), "PX", 20_000)
				b.Line(time.Minute, w)
				b.Do("HSET", b.BeatsKey(), "a", fmt.Sprintf("%d:%d:1000000", b.Now()+last, 10_000_000), "c1", fmt.Sprintf("%d:1000000:0", 10_000_000-age))
				b.Do("PEXPIRE", b.BeatsKey(), 20_000)
				require.Equal(t, "1", b.Code(holder.Release()))
				require.Equal(t, chosen, b.Lock() == w.Reserved())
			})
		}
	}
}

// Without beats queue time goes on by one period at most, however long that
// takes.
func TestQueueScriptEveryBeatAdvancesTime(t *testing.T) {
	b := scripttest.NewQueue(t, redistest.Shared(t))
	b.Do("SET", b.Key, scripttest.WaitNamed("c9", 1, "pf").Held(), "PX", 20_000)
	b.Line(0, scripttest.WaitNamed("c9", 2, "pf"))
	b.Show(map[string]scripttest.Beat{"c1": {Age: 0, Counted: 0}})
	for i := range int64(5) {
		b.Do("HSET", b.BeatsKey(), "a", fmt.Sprintf("%d:%s:1000000", b.Now()-3600_000_000, strings.SplitN(b.Field("a"), ":", 3)[1]))
		b.Code(scripttest.PollAs("c2"))
		require.Equal(t, scripttest.Now.Microseconds()+(i+1)*1_000_000, number(t, strings.Split(b.Field("a"), ":")[1]))
	}
}

// Tickets are the order of arrival, also when the clock went back. One that a
// wait has is kept.
func TestQueueScriptTickets(t *testing.T) {
	s := redistest.Shared(t)
	t.Run("the time of arrival", func(t *testing.T) {
		b := scripttest.NewQueue(t, s)
		b.Do("SET", b.Key, scripttest.WaitNamed("c9", 1, "ru").Reserved(), "PX", 20_000)
		before := b.Now()
		ticket := number(t, b.RequireWaiting(scripttest.WaitNamed("c1", 1, "ru"), 20*time.Second, b.Ask(scripttest.WaitNamed("c1", 1, "ru").Enqueue())))
		require.GreaterOrEqual(t, ticket, before)
		require.LessOrEqual(t, ticket, b.Now())
		require.Equal(t, fmt.Sprint(ticket), b.Field("t"))
	})
	for name, last := range map[string]int64{"in the future": 3600_000_000, "now": 0, "long ago": -3600_000_000} {
		t.Run("the last one is "+name, func(t *testing.T) {
			b := scripttest.NewQueue(t, s)
			b.Do("SET", b.Key, scripttest.WaitNamed("holder", 1, "pf").Held(), "PX", 20_000)
			now := b.Now()
			b.Do("HSET", b.BeatsKey(), "t", now+last)
			b.Do("PEXPIRE", b.BeatsKey(), 20_000)
			newest := now + last
			names := []string{}
			for i := range 20 { // names that do not sort as they arrive
				w := scripttest.WaitNamed(fmt.Sprint("c", 9-i%10), i+1, "pf")
				ticket := number(t, b.RequireWaiting(w, 20*time.Second, b.Ask(w.Enqueue())))
				require.Greater(t, ticket, newest)
				require.Equal(t, fmt.Sprint(ticket), b.Field("t"))
				newest, names = ticket, append(names, string(w))
			}
			require.Equal(t, names, b.Waits())
			if last > 0 {
				require.Equal(t, now+last+20, newest)
			} else {
				require.LessOrEqual(t, newest, b.Now())
			}
		})
	}
	t.Run("a place in the queue is kept", func(t *testing.T) {
		b := scripttest.NewQueue(t, s)
		b.Do("SET", b.Key, scripttest.WaitNamed("c9", 1, "pf").Held(), "PX", 20_000)
		first, second := scripttest.WaitNamed("c1", 1, "pf"), scripttest.WaitNamed("c2", 1, "pf")
		ticket := b.Ask(first.Enqueue())[1]
		other := b.Ask(second.Enqueue())[1]
		for _, again := range []script.Call{first.Enqueue(), first.EnqueueAgain(ticket, ""), first.EnqueueAgain("9999999999999999", "")} {
			require.Equal(t, ticket, b.Ask(again)[1])
			require.Equal(t, []string{string(first), string(second)}, b.Waits())
			require.Equal(t, other, b.Field("t"))
		}
	})
	t.Run("an old ticket is kept", func(t *testing.T) {
		b := scripttest.NewQueue(t, s)
		b.Do("SET", b.Key, scripttest.WaitNamed("c9", 1, "pf").Held(), "PX", 20_000)
		first, second, third := scripttest.WaitNamed("c1", 1, "pf"), scripttest.WaitNamed("c2", 1, "pf"), scripttest.WaitNamed("c3", 1, "pf")
		newest := b.Ask(second.Enqueue())[1]
		require.Equal(t, "77", b.RequireWaiting(first, 20*time.Second, b.Ask(first.EnqueueAgain("77", ""))))
		require.Equal(t, newest, b.Field("t"), "an older ticket does not lower it")
		ahead := fmt.Sprint(b.Now() + 3600_000_000)
		require.Equal(t, ahead, b.Ask(third.EnqueueAgain(ahead, ""))[1])
		require.Equal(t, ahead, b.Field("t"), "a newer ticket raises it")
		last := scripttest.WaitNamed("c4", 1, "pf")
		require.Equal(t, fmt.Sprint(number(t, ahead)+1), b.Ask(last.Enqueue())[1])
		require.Equal(t, []string{string(first), string(second), string(third), string(last)}, b.Waits())
	})
}

// Whoever comes shows that it lives, unless it did a moment ago; queue and
// beats stay for twelve periods, and not less than 12 s.
func TestQueueScriptStay(t *testing.T) {
	s := redistest.Shared(t)
	w := scripttest.WaitNamed("c1", 1, "pf")
	for period, stay := range map[time.Duration]time.Duration{time.Second: 12 * time.Second, 10 * time.Millisecond: 12 * time.Second, 5 * time.Second: time.Minute} {
		enqueue := w.Enqueue()
		enqueue.Args[1] = period.Milliseconds()
		poll := scripttest.PollAs("c1", string(w), "77")
		poll.Args[1] = period.Milliseconds()
		for name, script := range map[string]script.Call{"enqueue": enqueue, "poll": poll} {
			t.Run(fmt.Sprint(name, " ", period), func(t *testing.T) {
				b := scripttest.NewQueue(t, s)
				b.Do("SET", b.Key, scripttest.WaitNamed("c9", 1, "pf").Held(), "PX", 20_000)
				b.Ask(script)
				for _, key := range []string{b.QueueKey(), b.BeatsKey()} {
					ms, err := redis.Int64(b.Do("PTTL", key), nil)
					require.NoError(t, err)
					scripttest.RequireExpiry(t, stay, time.Duration(ms)*time.Millisecond)
				}
			})
		}
	}
	t.Run("one that comes more often takes nothing from another", func(t *testing.T) {
		b := scripttest.NewQueue(t, s)
		b.Do("SET", b.Key, scripttest.WaitNamed("c9", 1, "pf").Held(), "PX", 20_000)
		rare, often := w.Enqueue(), scripttest.WaitNamed("c2", 1, "pf").Enqueue()
		rare.Args[1] = (20 * time.Second).Milliseconds()
		b.Ask(rare)
		b.Ask(often)
		b.Ask(scripttest.PollAs("c2", string(scripttest.WaitNamed("c2", 1, "pf")), "77"))
		for _, key := range []string{b.QueueKey(), b.BeatsKey()} {
			ms, err := redis.Int64(b.Do("PTTL", key), nil)
			require.NoError(t, err)
			scripttest.RequireExpiry(t, 4*time.Minute, time.Duration(ms)*time.Millisecond)
		}
	})
	t.Run("a beat of the last period is left", func(t *testing.T) {
		b := scripttest.NewQueue(t, s)
		b.Do("SET", b.Key, scripttest.WaitNamed("c9", 1, "pf").Held(), "PX", 20_000)
		for client, tt := range map[string]struct {
			shown scripttest.Beat
			left  bool
		}{
			"c1": {scripttest.Beat{Age: scripttest.ScriptPeriod, Counted: 1}, true},
			"c2": {scripttest.Beat{Age: scripttest.ScriptPeriod + time.Microsecond, Counted: 1}, false},
			"c3": {scripttest.Beat{Age: scripttest.ScriptPeriod, Counted: 0}, true},
			"c4": {scripttest.Beat{Age: 2 * scripttest.ScriptPeriod, Counted: 0}, false},
			"c5": {scripttest.Beat{Age: 3 * scripttest.ScriptPeriod, Counted: 1}, false},
		} {
			b.Show(map[string]scripttest.Beat{client: tt.shown})
			before := b.Field(client)
			b.Ask(scripttest.WaitNamed(client, 1, "pf").Enqueue())
			want := fmt.Sprintf("%d:1000000:0", scripttest.Now.Microseconds())
			if tt.left {
				want = before
			}
			require.Equal(t, want, b.Field(client), client)
		}
	})
}
