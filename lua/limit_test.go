package lua_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/script"
)

// kinds are the kinds of locks whose scripts limit the same: the letters of two
// waits that exclude each other.
var kinds = map[string][2]string{"plain": {"pf", "pf"}, "reentrant": {"rf", "rf"}, "read/write": {"sf", "wf"}}

// A newcomer is refused if the queue is full. A wait that is in the queue, or
// has a ticket, is no newcomer.
func TestEnqueueIsLimited(t *testing.T) {
	for kind, letters := range kinds {
		t.Run(kind, func(t *testing.T) {
			holder, first, second := WaitNamed("c9", 1, letters[1]), WaitNamed("c1", 1, letters[0]),
				WaitNamed("c2", 1, letters[1])
			third, fourth := WaitNamed("c3", 1, letters[0]), WaitNamed("c4", 1, letters[0])
			held := []string{holder.Held()}
			NewHeld(t, server, holder).Steps(
				Step("the first", first.EnqueueLimited("", 2), "0", held, first),
				Step("the second", second.EnqueueLimited("", 2), "0", held, first, second),
				Step("full", third.EnqueueLimited("", 2), "5", held, first, second),
				Step("is in the queue", second.EnqueueLimited("", 2), "0", held, first, second),
				Step("has a ticket", third.EnqueueLimited("1", 2), "0", held, third, first, second),
				Step("not full", fourth.EnqueueLimited("", 4), "0", held, third, first, second, fourth),
			)
		})
	}
}

// A free lock with a full queue is handed off. The newcomer takes it if no
// client of the waits is alive.
func TestEnqueueAtAFullQueueOfAFreeLock(t *testing.T) {
	for kind, letters := range kinds {
		w, other := WaitNamed("c1", 1, letters[0]), WaitNamed("c2", 1, letters[1])
		gone := func(n int) []Wait { return StaleWaits(n, letters[1]) }
		for name, tt := range map[string]struct {
			line  []Wait
			asks  Wait
			limit int
			want  string
			lock  []string
			left  []Wait
		}{
			"handed off":                             {[]Wait{other}, w, 1, "5", []string{other.Reserved()}, nil},
			"all are gone":                           {gone(3), w, 3, "1", []string{w.Held()}, nil},
			"more are gone than one script examines": {gone(130), w, 3, "5", nil, gone(130)[128:]},
			"handed off behind others":               {append(gone(3), w), other, 3, "5", []string{w.Reserved()}, nil},
		} {
			t.Run(kind+"/"+name, func(t *testing.T) {
				b := NewQueue(t, server)
				b.Queued(tt.line...)
				b.Steps(Step(name, tt.asks.EnqueueLimited("", tt.limit), tt.want, tt.lock, tt.left...))
			})
		}
	}
}

// No script examines more than 128 waits. One that finds more reports it, and a
// cancel for nobody continues.
func TestQueueScriptHandOffLimit(t *testing.T) {
	live, other, holder, reentrant := WaitNamed("c1", 1, "pf"), WaitNamed("c2", 1, "pf"), WaitNamed("c9", 1, "pf"),
		WaitNamed("c9", 1, "rf")
	x, y, writes := WaitNamed("c9", 1, "sf"), WaitNamed("c2", 1, "sf"), WaitNamed("c1", 1, "wf")
	gone := StaleWaits(300, "pf")
	for name, tt := range map[string]struct {
		call script.Call
		live Wait
		held []Wait
	}{
		"release":              {holder.Release(), live, []Wait{holder}},
		"reentrant_release":    {reentrant.Release(), live, []Wait{reentrant}},
		"cancel":               {holder.Cancel(1), live, []Wait{holder}},
		"cancel for nobody":    {CancelNobody, live, nil},
		"try":                  {other.Try(), live, nil},
		"enqueue":              {other.Enqueue(), live, nil},
		"claim":                {live.Claim(), live, nil},
		"poll":                 {PollAs("c2"), live, nil},
		"force":                {frees(holder), live, []Wait{holder}},
		"rw_release":           {x.Release(), writes, []Wait{x}},
		"rw_cancel":            {x.Cancel(1), writes, []Wait{x}},
		"rw_cancel for nobody": {RWCancelNobody, writes, nil},
		"rw_try":               {y.Try(), writes, nil},
		"rw_enqueue":           {y.Enqueue(), writes, nil},
		"rw_claim":             {writes.Claim(), writes, nil},
		"rw_poll":              {RWPollAs("c1"), writes, nil},
		"rw_force":             {frees(x), writes, []Wait{x}},
	} {
		t.Run(name, func(t *testing.T) {
			b := NewHeld(t, server, tt.held...)
			b.Queued(append(slices.Clone(gone), tt.live)...)
			answer := b.Ask(tt.call)
			if strings.HasSuffix(name, "force") {
				answer = answer[2:3]
			}
			require.Equal(t, "4", answer[0])
			require.Empty(t, b.Entries())
			require.Equal(t, string(gone[128]), b.Waits()[0])
			if strings.HasSuffix(name, "claim") || strings.HasSuffix(name, "enqueue") {
				require.Len(t, answer, 4)
				require.Equal(t, string(b.Do("ZSCORE", b.QueueKey(), tt.call.Args[0].(string)).([]byte)), answer[1])
				require.Equal(t, "-2", answer[2], "the lock is free")
			}
			proceed := CancelNobody
			if tt.live == writes {
				proceed = RWCancelNobody
			}
			require.Equal(t, "4", b.Code(proceed))
			require.Equal(t, string(gone[256]), b.Waits()[0])
			require.Equal(t, "1", b.Code(proceed))
			require.Equal(t, []string{tt.live.Reserved()}, b.Entries())
		})
	}
	for n, reached := range map[int]bool{127: true, 128: false, 129: false} {
		b := NewHeld(t, server, holder)
		b.Queued(append(slices.Clone(gone[:n]), live)...)
		require.Equal(t, reached, b.Code(holder.Release()) == "1", n)
		require.Equal(t, reached, b.Lock() == live.Reserved(), n)
		require.Equal(t, !reached, slices.Contains(b.Waits(), string(live)), n)
	}
	b := NewHeld(t, server, holder)
	b.Queued(gone[:128]...)
	b.RequireDone(holder.Release())
	b.RequireHandedTo(Nobody, nil)
}
