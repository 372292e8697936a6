package relock

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
)

func number(t testing.TB, text string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(text, 10, 64)
	require.NoError(t, err)
	return n
}

// Queue time goes on with the server's clock, by a period between two beats at most, and never back.
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
			b := newQueueScripts(t, s)
			b.do("SET", b.key, waitNamed("c9", 1, "pf").held(), "PX", 20_000)
			b.line(0, waitNamed("c9", 2, "pf"))
			b.do("HSET", b.beats(), "other", "0:1000000:1")
			b.do("PEXPIRE", b.beats(), 20_000)
			now := b.now()
			if tt.last != "" {
				at, rest, _ := strings.Cut(tt.last, ":")
				if shift, ok := strings.CutPrefix(at, "#"); ok {
					at = fmt.Sprint(now + number(t, shift))
				}
				b.do("HSET", b.beats(), "a", at+":"+rest)
			}
			require.Equal(t, "1", b.code(pollAs("c1")))
			after := b.now()
			last := strings.Split(b.field("a"), ":")
			require.Len(t, last, 3)
			require.GreaterOrEqual(t, number(t, last[0]), now)
			require.LessOrEqual(t, number(t, last[0]), after)
			require.Equal(t, "1000000", last[2])
			require.Equal(t, last[1]+":1000000:0", b.field("c1"), "its beat is now")
			base := int64(0)
			if tt.max > 0 {
				base = 1 * second
			}
			require.GreaterOrEqual(t, number(t, last[1]), base+tt.min)
			require.LessOrEqual(t, number(t, last[1]), base+tt.max)
		})
	}
}

// A pause of the server, and a jump of its clock either way, make nobody stale that has not had the time to show itself.
func TestQueueScriptTimePassesOverPauses(t *testing.T) {
	s := redistest.Shared(t)
	w, holder := waitNamed("c1", 1, "pf"), waitNamed("c9", 1, "pf")
	const hour = int64(3600_000_000)
	for name, last := range map[string]int64{"pause": -hour, "jump forward": -24 * hour, "jump back": 24 * hour} {
		for age, chosen := range map[int64]bool{0: true, 1_500_000: true, 2_500_001: false} {
			t.Run(fmt.Sprint(name, " ", age), func(t *testing.T) {
				b := newQueueScripts(t, s)
				b.do("SET", b.key, holder.held(), "PX", 20_000)
				b.line(time.Minute, w)
				b.do("HSET", b.beats(), "a", fmt.Sprintf("%d:%d:1000000", b.now()+last, 10_000_000), "c1", fmt.Sprintf("%d:1000000:0", 10_000_000-age))
				b.do("PEXPIRE", b.beats(), 20_000)
				require.Equal(t, "1", b.code(holder.release()))
				require.Equal(t, chosen, b.lock() == w.reserved())
			})
		}
	}
}

// Without beats queue time goes on by one period at most, however long that takes.
func TestQueueScriptEveryBeatAdvancesTime(t *testing.T) {
	b := newQueueScripts(t, redistest.Shared(t))
	b.do("SET", b.key, waitNamed("c9", 1, "pf").held(), "PX", 20_000)
	b.line(0, waitNamed("c9", 2, "pf"))
	b.show(map[string]shownBeat{"c1": {0, 0}})
	for i := range int64(5) {
		b.do("HSET", b.beats(), "a", fmt.Sprintf("%d:%s:1000000", b.now()-3600_000_000, strings.SplitN(b.field("a"), ":", 3)[1]))
		b.code(pollAs("c2"))
		require.Equal(t, queueNow.Microseconds()+(i+1)*1_000_000, number(t, strings.Split(b.field("a"), ":")[1]))
	}
}

// Tickets are the order of arrival, also when the clock went back. One that a wait has is kept.
func TestQueueScriptTickets(t *testing.T) {
	s := redistest.Shared(t)
	t.Run("the time of arrival", func(t *testing.T) {
		b := newQueueScripts(t, s)
		b.do("SET", b.key, waitNamed("c9", 1, "ru").reserved(), "PX", 20_000)
		before := b.now()
		ticket := number(t, b.requireWaiting(waitNamed("c1", 1, "ru"), 20*time.Second, b.ask(waitNamed("c1", 1, "ru").enqueue())))
		require.GreaterOrEqual(t, ticket, before)
		require.LessOrEqual(t, ticket, b.now())
		require.Equal(t, fmt.Sprint(ticket), b.field("t"))
	})
	for name, last := range map[string]int64{"in the future": 3600_000_000, "now": 0, "long ago": -3600_000_000} {
		t.Run("the last one is "+name, func(t *testing.T) {
			b := newQueueScripts(t, s)
			b.do("SET", b.key, waitNamed("holder", 1, "pf").held(), "PX", 20_000)
			now := b.now()
			b.do("HSET", b.beats(), "t", now+last)
			b.do("PEXPIRE", b.beats(), 20_000)
			newest := now + last
			names := []string{}
			for i := range 20 { // names that do not sort as they arrive
				w := waitNamed(fmt.Sprint("c", 9-i%10), i+1, "pf")
				ticket := number(t, b.requireWaiting(w, 20*time.Second, b.ask(w.enqueue())))
				require.Greater(t, ticket, newest)
				require.Equal(t, fmt.Sprint(ticket), b.field("t"))
				newest, names = ticket, append(names, string(w))
			}
			require.Equal(t, names, b.waits())
			if last > 0 {
				require.Equal(t, now+last+20, newest)
			} else {
				require.LessOrEqual(t, newest, b.now())
			}
		})
	}
	t.Run("a place in the queue is kept", func(t *testing.T) {
		b := newQueueScripts(t, s)
		b.do("SET", b.key, waitNamed("c9", 1, "pf").held(), "PX", 20_000)
		first, second := waitNamed("c1", 1, "pf"), waitNamed("c2", 1, "pf")
		ticket := b.ask(first.enqueue())[1]
		other := b.ask(second.enqueue())[1]
		for _, again := range []script.Call{first.enqueue(), first.enqueueAgain(ticket, ""), first.enqueueAgain("9999999999999999", "")} {
			require.Equal(t, ticket, b.ask(again)[1])
			require.Equal(t, []string{string(first), string(second)}, b.waits())
			require.Equal(t, other, b.field("t"))
		}
	})
	t.Run("an old ticket is kept", func(t *testing.T) {
		b := newQueueScripts(t, s)
		b.do("SET", b.key, waitNamed("c9", 1, "pf").held(), "PX", 20_000)
		first, second, third := waitNamed("c1", 1, "pf"), waitNamed("c2", 1, "pf"), waitNamed("c3", 1, "pf")
		newest := b.ask(second.enqueue())[1]
		require.Equal(t, "77", b.requireWaiting(first, 20*time.Second, b.ask(first.enqueueAgain("77", ""))))
		require.Equal(t, newest, b.field("t"), "an older ticket does not lower it")
		ahead := fmt.Sprint(b.now() + 3600_000_000)
		require.Equal(t, ahead, b.ask(third.enqueueAgain(ahead, ""))[1])
		require.Equal(t, ahead, b.field("t"), "a newer ticket raises it")
		last := waitNamed("c4", 1, "pf")
		require.Equal(t, fmt.Sprint(number(t, ahead)+1), b.ask(last.enqueue())[1])
		require.Equal(t, []string{string(first), string(second), string(third), string(last)}, b.waits())
	})
}

// Whoever comes shows that it lives, unless it did a moment ago; queue and beats stay for twelve periods, and not less than 12 s.
func TestQueueScriptStay(t *testing.T) {
	s := redistest.Shared(t)
	w := waitNamed("c1", 1, "pf")
	for period, stay := range map[time.Duration]time.Duration{time.Second: 12 * time.Second, 10 * time.Millisecond: 12 * time.Second, 5 * time.Second: time.Minute} {
		enqueue := w.enqueue()
		enqueue.Args[1] = period.Milliseconds()
		poll := pollAs("c1", string(w), "77")
		poll.Args[1] = period.Milliseconds()
		for name, script := range map[string]script.Call{"enqueue": enqueue, "poll": poll} {
			t.Run(fmt.Sprint(name, " ", period), func(t *testing.T) {
				b := newQueueScripts(t, s)
				b.do("SET", b.key, waitNamed("c9", 1, "pf").held(), "PX", 20_000)
				b.ask(script)
				for _, key := range []string{b.queue(), b.beats()} {
					ms, err := redis.Int64(b.do("PTTL", key), nil)
					require.NoError(t, err)
					requireExpiry(t, stay, time.Duration(ms)*time.Millisecond)
				}
			})
		}
	}
	t.Run("one that comes more often takes nothing from another", func(t *testing.T) {
		b := newQueueScripts(t, s)
		b.do("SET", b.key, waitNamed("c9", 1, "pf").held(), "PX", 20_000)
		rare, often := w.enqueue(), waitNamed("c2", 1, "pf").enqueue()
		rare.Args[1] = (20 * time.Second).Milliseconds()
		b.ask(rare)
		b.ask(often)
		b.ask(pollAs("c2", string(waitNamed("c2", 1, "pf")), "77"))
		for _, key := range []string{b.queue(), b.beats()} {
			ms, err := redis.Int64(b.do("PTTL", key), nil)
			require.NoError(t, err)
			requireExpiry(t, 4*time.Minute, time.Duration(ms)*time.Millisecond)
		}
	})
	t.Run("a beat of the last period is left", func(t *testing.T) {
		b := newQueueScripts(t, s)
		b.do("SET", b.key, waitNamed("c9", 1, "pf").held(), "PX", 20_000)
		for client, tt := range map[string]struct {
			shown shownBeat
			left  bool
		}{
			"c1": {shownBeat{scriptPeriod, 1}, true},
			"c2": {shownBeat{scriptPeriod + time.Microsecond, 1}, false},
			"c3": {shownBeat{scriptPeriod, 0}, true},
			"c4": {shownBeat{2 * scriptPeriod, 0}, false},
			"c5": {shownBeat{3 * scriptPeriod, 1}, false},
		} {
			b.show(map[string]shownBeat{client: tt.shown})
			before := b.field(client)
			b.ask(waitNamed(client, 1, "pf").enqueue())
			want := fmt.Sprintf("%d:1000000:0", queueNow.Microseconds())
			if tt.left {
				want = before
			}
			require.Equal(t, want, b.field(client), client)
		}
	})
}
