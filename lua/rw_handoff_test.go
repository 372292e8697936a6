package lua_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/test/redistest"
)

// A newcomer overtakes a waiter only if the lock is unfair and the wait
// young.
func TestRWScriptNewcomers(t *testing.T) {
	for _, mode := range []string{"f", "u"} {
		for name, script := range map[string]func(Wait) script.Call{"try": Wait.Try, "enqueue": Wait.Enqueue} {
			t.Run(mode+"/"+name, func(t *testing.T) {
				x, y, w := WaitNamed("c1", 1, "s"+mode), WaitNamed("c2", 1, "s"+mode), WaitNamed("c5", 1, "w"+mode)
				b := NewQueue(t, server)
				overtakes := func(ago time.Duration) bool {
					b.Clear()
					b.RequireDone(x.Try())
					b.Live("c5")
					b.Line(ago, w)
					b.Do("HSET", b.HeartbeatsKey(), "t", b.Now()-ago.Microseconds())
					return b.Code(script(y)) == "1"
				}
				require.False(t, overtakes(time.Minute))
				require.False(t, overtakes(-time.Minute), "the clock has gone back")
				if mode == "f" {
					require.False(t, overtakes(0))
					return
				}
				b.Until(func() bool { return overtakes(0) }, "a young wait is overtaken")
				require.Equal(t, []string{x.Reads(), y.Reads()}, b.Entries())
				b.RequireWaits("it waits on", w)
			})
		}
	}
	b, x := NewQueue(t, server), WaitNamed("c1", 1, "su")
	b.Until(func() bool {
		b.Clear()
		b.Live("c9")
		b.Line(0, WaitNamed("c9", 1, "wu"), x)
		return b.Code(x.EnqueueAgain("5", "")) == "1" && len(b.Waits()) == 1
	}, "its queue entry goes")
	require.Equal(t, []string{x.Reads()}, b.Entries())
}

// hand_on: whose turn it is, behind waits of clients that are gone. Without
// memory it is the same, but no enqueue changes anything.
func TestRWScriptHandOff(t *testing.T) {
	s := redistest.Start(t)
	x, y, v, w := WaitNamed("c1", 1, "sf"), WaitNamed("c2", 1, "sf"), WaitNamed("c4", 1, "wf"), WaitNamed("c5", 1, "wf")
	plain := WaitNamed("c1", 9, "pf")
	long := Wait("c1:8:sf:" + strings.Repeat("9", 16))
	for _, tt := range []struct {
		name   string
		before []Wait // take it
		line   []Wait
		script script.Call
		answer string
		lock   []string
		left   []Wait
	}{
		{"to a writer", nil, append(StaleWaits(3, "sf"), w, x), RWCancelNobody, "1", []string{w.Reserved()}, []Wait{x}},
		{"to readers", nil, append(StaleWaits(3, "wf"), x, y, w), RWCancelNobody, "1", []string{
			x.Reserved(), y.Reserved(),
		}, []Wait{w}},
		{"others may read along", []Wait{
			x,
		}, append(StaleWaits(3, "wf"), y, w), RWCancelNobody, "1", []string{x.Reads(), y.Reserved()}, []Wait{w}},
		{"held to write", []Wait{
			v,
		}, append(StaleWaits(3, "wf"), y), RWCancelNobody, "1", []string{v.Writes()}, append(StaleWaits(3, "wf"), y)},
		{"all gone", nil, StaleWaits(3, "wf"), RWCancelNobody, "1", nil, nil},
		{"what is no wait of ours", nil, []Wait{plain, long, w}, RWCancelNobody, "1", []string{w.Reserved()}, nil},
		{"claim, the first", nil, append(StaleWaits(3, "sf"), w, x), w.Claim(), "1", []string{w.Writes()}, []Wait{x}},
		{"claim, the first, the readers come along", nil, []Wait{
			x, y, w,
		}, x.Claim(), "1", []string{x.Reads(), y.Reserved()}, []Wait{w}},
		{"claim, not the first", nil, []Wait{x, y, w}, y.Claim(), "1", []string{x.Reserved(), y.Reads()}, []Wait{w}},
		{"claim, to write, not the first", nil, []Wait{x, w}, w.Claim(), "0", []string{x.Reserved()}, []Wait{w}},
		{"claim, not queued", nil, []Wait{x, w}, y.Claim(), "3", []string{x.Reserved()}, []Wait{w}},
		{"claim, beside a reader", []Wait{y}, []Wait{x, w}, x.Claim(), "1", []string{x.Reads(), y.Reads()}, []Wait{w}},
		{"try, others are gone", nil, StaleWaits(3, "wf"), x.Try(), "1", []string{x.Reads()}, nil},
		{"try, others read along", nil, []Wait{x}, y.Try(), "1", []string{x.Reserved(), y.Reads()}, nil},
		{"try, to write, others read", nil, []Wait{x}, w.Try(), "0", []string{x.Reserved()}, nil},
		{"try, another writes", nil, []Wait{w}, x.Try(), "0", []string{w.Reserved()}, nil},
		{"enqueue, others are gone", nil, StaleWaits(3, "wf"), x.Enqueue(), "1", []string{x.Reads()}, nil},
		{"enqueue, others read along", nil, []Wait{x}, y.Enqueue(), "1", []string{x.Reserved(), y.Reads()}, nil},
		{
			"enqueue, with its ticket", nil, []Wait{x, w, y}, y.EnqueueAgain("5", ""), "0", []string{x.Reserved()}, []Wait{w, y},
		},
		{"release", []Wait{v}, []Wait{x, y, w}, v.Release(), "1", []string{x.Reserved(), y.Reserved()}, []Wait{w}},
		{"downgrade", []Wait{v}, []Wait{x, w}, v.Leave(1, 0, 2), "1", []string{v.Reads(), x.Reserved()}, []Wait{w}},
		{"release, one reads on", []Wait{x, y}, []Wait{w}, x.Release(), "1", []string{y.Reads()}, []Wait{w}},
		{"cancel of a waiter that kept others", []Wait{
			x,
		}, []Wait{w, y}, w.Cancel(1), "1", []string{x.Reads(), y.Reserved()}, nil},
		{"poll", nil, []Wait{w, x}, RWPollAs("c9"), "1", []string{w.Reserved()}, []Wait{x}},
	} {
		for _, memory := range []string{"enough", "none"} {
			t.Run(tt.name+"/"+memory, func(t *testing.T) {
				b := NewHeld(t, s, tt.before...)
				b.Queued(tt.line...)
				before := b.Everything()
				if memory == "none" {
					fillMemory(t, s)
				}
				if memory == "none" && tt.script.Script == script.RWEnqueue {
					b.RequireError(tt.script, "OOM")
					require.Equal(t, before, b.Everything())
					return
				}
				b.Steps(Step("", tt.script, tt.answer, tt.lock, tt.left...))
			})
		}
	}
}
