package lua_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/test/locktest"
)

// Queue time goes on with the server's clock, by a period between two
// heartbeats at most, and never back. It stands still if nobody has sent one
// for one and a half periods.
func TestQueueScriptTime(t *testing.T) {
	const second = int64(1_000_000)
	for _, tt := range []struct {
		name     string
		last     string // the last beat of anyone; # is the server's time
		min, max int64  // queue time after it
	}{
		{"none", "", 0, 0},
		{"not one", "5:5", 0, 0},
		{"the server stood still for an hour", "#-3600000000:5000000:1000000", 5 * second, 5 * second},
		{"the clock jumped back by an hour", "#+3600000000:5000000:1000000", 5 * second, 5 * second},
		{"nobody could send one for a moment", "#-1500000:5000000:1000000", 5 * second, 5 * second},
		{"a little more than a period went by", "#-1050000:5000000:1000000", 6 * second, 6 * second},
		{"half a period went by", "#-500000:5000000:1000000", 5*second + second/2, 6 * second},
		{"a tenth of a long period went by", "#-6000000:5000000:60000000", 11 * second, 65 * second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := NewHeld(t, server, WaitNamed("c9", 1, "pf"))
			b.Line(0, WaitNamed("c9", 2, "pf"))
			b.Do("HSET", b.HeartbeatsKey(), "other", "0:1000000:1")
			b.Do("PEXPIRE", b.HeartbeatsKey(), 20_000)
			now := b.Now()
			if tt.last != "" {
				at, rest, _ := strings.Cut(tt.last, ":")
				if shift, ok := strings.CutPrefix(at, "#"); ok {
					at = fmt.Sprint(now + number(t, shift))
				}
				b.Do("HSET", b.HeartbeatsKey(), "a", at+":"+rest)
			}
			b.RequireDone(PollAs("c1"))
			after := b.Now()
			last := strings.Split(b.Field("a"), ":")
			require.Len(t, last, 3)
			require.GreaterOrEqual(t, number(t, last[0]), now)
			require.LessOrEqual(t, number(t, last[0]), after)
			require.Equal(t, "1000000", last[2])
			require.Equal(t, last[1]+":1000000:0", b.Field("c1"), "its beat is now")
			require.GreaterOrEqual(t, number(t, last[1]), tt.min)
			require.LessOrEqual(t, number(t, last[1]), tt.max)
		})
	}
}

// A pause of the server, and a jump of its clock either way, make nobody stale
// that has not had the time to show itself.
func TestQueueScriptTimePassesOverPauses(t *testing.T) {
	w, holder := WaitNamed("c1", 1, "pf"), WaitNamed("c9", 1, "pf")
	const hour = int64(3600_000_000)
	for name, last := range map[string]int64{"pause": -hour, "jump forward": -24 * hour, "jump back": 24 * hour} {
		for age, chosen := range map[int64]bool{0: true, 2_500_000: true, 2_500_001: false} {
			t.Run(fmt.Sprint(name, " ", age), func(t *testing.T) {
				b := NewHeld(t, server, holder)
				b.Line(time.Minute, w)
				b.Do("HSET", b.HeartbeatsKey(), "a", fmt.Sprintf("%d:%d:1000000", b.Now()+last, 10_000_000), "c1",
					fmt.Sprintf("%d:1000000:0", 10_000_000-age))
				b.Do("PEXPIRE", b.HeartbeatsKey(), 20_000)
				b.RequireDone(holder.Release())
				require.Equal(t, chosen, b.Lock() == w.Reserved())
			})
		}
	}
}

// requireWaiting checks that a call waits in the queue, and the ticket, lease
// and number of others that its reply has. It returns the ticket.
func requireWaiting(b *Queue, w Wait, call script.Call) int64 {
	b.Helper()
	answer := b.Ask(call)
	require.Len(b, answer, 4)
	require.Equal(b, "0", answer[0])
	require.Contains(b, b.Waits(), string(w))
	require.Equal(b, fmt.Sprint(len(b.Waits())-1), answer[3], "others in the queue")
	require.Equal(b, string(b.Do("ZSCORE", b.QueueKey(), string(w)).([]byte)), answer[1])
	RequireExpiry(b, Lease+locktest.ClockGrain, time.Duration(number(b, answer[2]))*time.Millisecond)
	return number(b, answer[1])
}

// Tickets are the order of arrival, also if the clock went back. A wait keeps
// its ticket.
func TestQueueScriptTickets(t *testing.T) {
	for kind, letters := range kinds {
		wait := func(client string, n int) Wait { return WaitNamed(client, n, letters[0]) }
		holder := WaitNamed("holder", 1, letters[1])
		for name, last := range map[string]int64{"in the future": 3600_000_000, "now": 0, "long ago": -3600_000_000} {
			t.Run(kind+", the last one is "+name, func(t *testing.T) {
				b := NewHeld(t, server, holder)
				now := b.Now()
				b.Do("HSET", b.HeartbeatsKey(), "t", now+last)
				b.Do("PEXPIRE", b.HeartbeatsKey(), 20_000)
				newest, all := now+last, []Wait{}
				for i := range 20 { // names that do not sort as they arrive
					w := wait(fmt.Sprint("c", 9-i%10), i+1)
					ticket := requireWaiting(b, w, w.Enqueue())
					require.Greater(t, ticket, newest)
					require.Equal(t, fmt.Sprint(ticket), b.Field("t"))
					newest, all = ticket, append(all, w)
				}
				b.RequireWaits("", all...)
				if last > 0 {
					require.Equal(t, now+last+20, newest)
				} else {
					require.LessOrEqual(t, newest, b.Now())
				}
			})
		}
		t.Run(kind+", kept", func(t *testing.T) {
			b := NewHeld(t, server, holder)
			before := b.Now()
			first, second, third, last := wait("c1", 1), wait("c2", 1), wait("c3", 1), wait("c4", 1)
			ticket := requireWaiting(b, first, first.Enqueue())
			require.GreaterOrEqual(t, ticket, before, "the time of arrival")
			other := fmt.Sprint(requireWaiting(b, second, second.Enqueue()))
			for _, again := range []script.Call{
				first.Enqueue(), first.EnqueueAgain(fmt.Sprint(ticket), ""), first.EnqueueAgain("9999999999999999", ""),
			} {
				require.Equal(t, ticket, requireWaiting(b, first, again))
				b.RequireWaits("", first, second)
				require.Equal(t, other, b.Field("t"))
			}
			require.Equal(t, int64(77), requireWaiting(b, third, third.EnqueueAgain("77", "")))
			require.Equal(t, other, b.Field("t"), "an older ticket does not lower it")
			ahead := b.Now() + 3600_000_000
			require.Equal(t, ahead, requireWaiting(b, last, last.EnqueueAgain(fmt.Sprint(ahead), "")))
			require.Equal(t, fmt.Sprint(ahead), b.Field("t"), "a newer ticket raises it")
			require.Equal(t, ahead+1, requireWaiting(b, wait("c5", 1), wait("c5", 1).Enqueue()))
			b.RequireWaits("", third, first, second, last, wait("c5", 1))
		})
		t.Run(kind+", put back by a poll", func(t *testing.T) {
			b := NewHeld(t, server, holder)
			ahead := b.Now() + 3600_000_000
			for i, tickets := range [][2]int64{{ahead, ahead}, {50, ahead}, {ahead + 100, ahead + 100}} {
				w := wait("c1", i+1)
				b.Ask(w.Poll(string(w), tickets[0]))
				require.Equal(t, fmt.Sprint(tickets[1]), b.Field("t"))
			}
			require.Equal(t, ahead+101, requireWaiting(b, wait("c2", 1), wait("c2", 1).Enqueue()))
		})
	}
}

// A request shows that its client lives, unless it did a moment ago. Queue and
// heartbeats stay for twelve periods, and not less than 12 s.
func TestQueueScriptStay(t *testing.T) {
	holder, w, other := WaitNamed("c9", 1, "pf"), WaitNamed("c1", 1, "pf"), WaitNamed("c2", 1, "pf")
	every := func(call script.Call, period time.Duration) script.Call {
		call.Args[1] = period.Milliseconds()
		return call
	}
	requireStay := func(stay time.Duration, calls ...script.Call) {
		t.Helper()
		b := NewHeld(t, server, holder)
		for _, call := range calls {
			b.Ask(call)
		}
		RequireExpiry(t, stay, b.TTL(b.QueueKey()))
		RequireExpiry(t, stay, b.TTL(b.HeartbeatsKey()))
	}
	for period, stay := range map[time.Duration]time.Duration{
		time.Second: 12 * time.Second, 10 * time.Millisecond: 12 * time.Second, 5 * time.Second: time.Minute,
	} {
		requireStay(stay, every(w.Enqueue(), period))
		requireStay(stay, every(w.Poll(string(w), "77"), period))
	}
	// A client that comes more often takes nothing from another.
	requireStay(4*time.Minute, every(w.Enqueue(), 20*time.Second), other.Enqueue(), other.Poll(string(other), "77"))

	b := NewHeld(t, server, holder)
	for shown, stays := range map[Heartbeat]bool{
		{Age: ScriptPeriod, Counted: 1}:                    true, // of the last period
		{Age: ScriptPeriod + time.Microsecond, Counted: 1}: false,
		{Age: ScriptPeriod, Counted: 0}:                    true,
		{Age: 2 * ScriptPeriod, Counted: 0}:                false,
		{Age: 3 * ScriptPeriod, Counted: 1}:                false,
	} {
		b.Show(map[string]Heartbeat{"c1": shown})
		want := fmt.Sprintf("%d:1000000:0", Now.Microseconds())
		if stays {
			want = b.Field("c1")
		}
		b.Ask(w.Enqueue())
		require.Equal(t, want, b.Field("c1"), "%v", shown)
	}
}
