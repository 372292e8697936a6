package lua_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/scripttest"
)

// A newcomer overtakes one who waits only when the lock is unfair and the wait
// young.
func TestRWScriptNewcomers(t *testing.T) {
	s := redistest.Shared(t)
	for _, mode := range []string{"f", "u"} {
		for name, script := range map[string]func(scripttest.RWWait) script.Call{"try": scripttest.RWWait.Try, "enqueue": scripttest.RWWait.Enqueue} {
			t.Run(mode+"/"+name, func(t *testing.T) {
				x, y, w := scripttest.RWWaitNamed("c1", 1, "s"+mode), scripttest.RWWaitNamed("c2", 1, "s"+mode), scripttest.RWWaitNamed("c5", 1, "w"+mode)
				b := scripttest.NewReadWrite(t, s)
				overtakes := func(ago time.Duration) bool {
					b.Do("DEL", b.Key, b.QueueKey(), b.BeatsKey())
					require.Equal(t, "1", b.Code(x.Try()))
					b.Show(map[string]scripttest.Beat{"c5": {Age: 0, Counted: 0}})
					b.Stand(ago, w)
					b.Do("HSET", b.BeatsKey(), "t", b.Now()-ago.Microseconds())
					return b.Code(script(y)) == "1"
				}
				require.False(t, overtakes(time.Minute))
				require.False(t, overtakes(-time.Minute), "the clock has gone back")
				if mode == "f" {
					require.False(t, overtakes(0))
					return
				}
				b.Until(func() bool { return overtakes(0) }, "a young wait is overtaken")
				require.Equal(t, []string{x.Reads(), y.Reads()}, b.Lock())
				b.RequireQueue("it waits on", w)
			})
		}
	}
	t.Run("with a place", func(t *testing.T) {
		b := scripttest.NewReadWrite(t, s)
		x := scripttest.RWWaitNamed("c1", 1, "su")
		b.Until(func() bool {
			b.Do("DEL", b.Key, b.QueueKey(), b.BeatsKey())
			b.Show(map[string]scripttest.Beat{"c9": {Age: 0, Counted: 0}})
			b.Stand(0, scripttest.RWWaitNamed("c9", 1, "wu"), x)
			return b.Code(x.EnqueueAgain("5")) == "1" && len(b.Waits()) == 1
		}, "its place goes")
		require.Equal(t, []string{x.Reads()}, b.Lock())
	})
}

// hand_on: whose turn it is, behind waits of clients that are gone.
func TestRWScriptHandOn(t *testing.T) {
	s := redistest.Shared(t)
	x, y, v, w := scripttest.RWWaitNamed("c1", 1, "sf"), scripttest.RWWaitNamed("c2", 1, "sf"), scripttest.RWWaitNamed("c4", 1, "wf"), scripttest.RWWaitNamed("c5", 1, "wf")
	live := map[string]scripttest.Beat{"c1": {Age: 0, Counted: 0}, "c2": {Age: 0, Counted: 0}, "c4": {Age: 0, Counted: 0}, "c5": {Age: 0, Counted: 0}}
	plain := scripttest.RWWait{Wait: scripttest.WaitNamed("c1", 9, "pf")}
	long := scripttest.RWWait{Wait: scripttest.Wait("c1:8:sf:" + strings.Repeat("9", 16))}
	for _, tt := range []struct {
		name   string
		before []scripttest.RWWait // take it
		line   []scripttest.RWWait
		script script.Call
		answer string
		lock   []string
		left   []scripttest.RWWait
	}{
		{"to one who writes", nil, append(scripttest.RWGone(3, "sf"), w, x), scripttest.RWNobody.Cancel(0), "1", []string{w.Reserved()}, []scripttest.RWWait{x}},
		{"to those who read", nil, append(scripttest.RWGone(3, "wf"), x, y, w), scripttest.RWNobody.Cancel(0), "1", []string{x.Reserved(), y.Reserved()}, []scripttest.RWWait{w}},
		{"others may read along", []scripttest.RWWait{x}, append(scripttest.RWGone(3, "wf"), y, w), scripttest.RWNobody.Cancel(0), "1", []string{x.Reads(), y.Reserved()}, []scripttest.RWWait{w}},
		{"held to write", []scripttest.RWWait{v}, append(scripttest.RWGone(3, "wf"), y), scripttest.RWNobody.Cancel(0), "1", []string{v.Writes()}, append(scripttest.RWGone(3, "wf"), y)},
		{"all gone", nil, scripttest.RWGone(3, "wf"), scripttest.RWNobody.Cancel(0), "1", nil, nil},
		{"what is no wait of ours", nil, []scripttest.RWWait{plain, long, w}, scripttest.RWNobody.Cancel(0), "1", []string{w.Reserved()}, nil},
		{"claim, the first", nil, append(scripttest.RWGone(3, "sf"), w, x), w.Claim(), "1", []string{w.Writes()}, []scripttest.RWWait{x}},
		{"claim, the first, those who read come along", nil, []scripttest.RWWait{x, y, w}, x.Claim(), "1", []string{x.Reads(), y.Reserved()}, []scripttest.RWWait{w}},
		{"claim, not the first", nil, []scripttest.RWWait{x, y, w}, y.Claim(), "1", []string{x.Reserved(), y.Reads()}, []scripttest.RWWait{w}},
		{"claim, to write, not the first", nil, []scripttest.RWWait{x, w}, w.Claim(), "0", []string{x.Reserved()}, []scripttest.RWWait{w}},
		{"claim, not queued", nil, []scripttest.RWWait{x, w}, y.Claim(), "3", []string{x.Reserved()}, []scripttest.RWWait{w}},
		{"claim, beside one who reads", []scripttest.RWWait{y}, []scripttest.RWWait{x, w}, x.Claim(), "1", []string{x.Reads(), y.Reads()}, []scripttest.RWWait{w}},
		{"try, others are gone", nil, scripttest.RWGone(3, "wf"), x.Try(), "1", []string{x.Reads()}, nil},
		{"try, others read along", nil, []scripttest.RWWait{x}, y.Try(), "1", []string{x.Reserved(), y.Reads()}, nil},
		{"try, to write, others read", nil, []scripttest.RWWait{x}, w.Try(), "0", []string{x.Reserved()}, nil},
		{"try, another writes", nil, []scripttest.RWWait{w}, x.Try(), "0", []string{w.Reserved()}, nil},
		{"enqueue, others are gone", nil, scripttest.RWGone(3, "wf"), x.Enqueue(), "1", []string{x.Reads()}, nil},
		{"enqueue, others read along", nil, []scripttest.RWWait{x}, y.Enqueue(), "1", []string{x.Reserved(), y.Reads()}, nil},
		{"enqueue, with its ticket", nil, []scripttest.RWWait{x, w, y}, y.EnqueueAgain("5"), "0", []string{x.Reserved()}, []scripttest.RWWait{w, y}},
		{"release", []scripttest.RWWait{v}, []scripttest.RWWait{x, y, w}, v.Release(), "1", []string{x.Reserved(), y.Reserved()}, []scripttest.RWWait{w}},
		{"release, one reads on", []scripttest.RWWait{x, y}, []scripttest.RWWait{w}, x.Release(), "1", []string{y.Reads()}, []scripttest.RWWait{w}},
		{"cancel of one who kept others", []scripttest.RWWait{x}, []scripttest.RWWait{w, y}, w.Cancel(1), "1", []string{x.Reads(), y.Reserved()}, nil},
		{"poll", nil, []scripttest.RWWait{w, x}, scripttest.RWPollAs("c9"), "1", []string{w.Reserved()}, []scripttest.RWWait{x}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := scripttest.NewReadWrite(t, s)
			for _, w := range tt.before {
				require.Equal(t, "1", b.Code(w.Try()))
			}
			b.Show(live)
			b.Stand(time.Minute, tt.line...)
			b.Steps(scripttest.Step("", tt.script, tt.answer, tt.lock, tt.left))
		})
	}
}

// A client whose subscription the server does not see any more is gone: at once
// for an unfair wait, after a period for a fair one.
func TestRWScriptHandOnToNobody(t *testing.T) {
	s := redistest.Shared(t)
	for _, tt := range []struct {
		mode  string
		beat  scripttest.Beat
		heard bool
		gone  bool
	}{
		{"u", scripttest.Beat{Age: 0, Counted: 1}, false, true},
		{"u", scripttest.Beat{Age: 0, Counted: 1}, true, false},
		{"u", scripttest.Beat{Age: 0, Counted: 0}, false, false},
		{"f", scripttest.Beat{Age: 0, Counted: 1}, false, false},
		{"f", scripttest.Beat{Age: 3 * scripttest.ScriptPeriod / 2, Counted: 1}, false, true},
		{"f", scripttest.Beat{Age: 3 * scripttest.ScriptPeriod / 2, Counted: 1}, true, false},
		{"f", scripttest.Beat{Age: 3 * scripttest.ScriptPeriod / 2, Counted: 0}, false, false},
		{"f", scripttest.Beat{Age: 3 * scripttest.ScriptPeriod, Counted: 1}, true, true},
	} {
		t.Run(fmt.Sprintf("%+v", tt), func(t *testing.T) {
			b := scripttest.NewReadWrite(t, s)
			x, w := scripttest.RWWaitNamed("c1", 1, "s"+tt.mode), scripttest.RWWaitNamed("c5", 1, "w"+tt.mode)
			b.Show(map[string]scripttest.Beat{"c1": tt.beat, "c5": {Age: 0, Counted: 0}})
			if tt.heard {
				b.Listen(s, "c1")
			}
			b.Stand(time.Minute, x, w)
			require.Equal(t, "1", b.Code(scripttest.RWNobody.Cancel(0)))
			if tt.gone {
				require.Equal(t, []string{w.Reserved()}, b.Lock())
			} else {
				require.Equal(t, []string{x.Reserved()}, b.Lock())
			}
		})
	}
}

// No script looks at more than 128 waits. Whoever finds that there are more
// says so, and a cancel for nobody goes on.
func TestRWScriptHandOnLimit(t *testing.T) {
	s := redistest.Shared(t)
	x, w := scripttest.RWWaitNamed("c1", 1, "sf"), scripttest.RWWaitNamed("c5", 1, "wf")
	for name, script := range map[string]script.Call{
		"try": scripttest.RWWaitNamed("c2", 1, "sf").Try(), "enqueue": scripttest.RWWaitNamed("c2", 1, "sf").Enqueue(), "claim": w.Claim(), "release": x.Release(),
		"cancel": x.Cancel(1), "cancel for nobody": scripttest.RWNobody.Cancel(0), "poll": scripttest.RWPollAs("c5"),
	} {
		t.Run(name, func(t *testing.T) {
			b := scripttest.NewReadWrite(t, s)
			if name == "release" || name == "cancel" {
				require.Equal(t, "1", b.Code(x.Try()))
			}
			b.Show(map[string]scripttest.Beat{"c5": {Age: 0, Counted: 0}})
			b.Stand(time.Minute, append(scripttest.RWGone(200, "sf"), w)...)
			require.Equal(t, "4", b.Code(script))
			require.Empty(t, b.Lock())
			require.Equal(t, "1", b.Code(scripttest.RWNobody.Cancel(0)))
			require.Equal(t, []string{w.Reserved()}, b.Lock())
		})
	}
}
