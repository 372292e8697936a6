package relock

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/script"
)

// A newcomer overtakes one who waits only when the lock is unfair and the wait young.
func TestRWScriptNewcomers(t *testing.T) {
	s := redistest.Shared(t)
	for _, mode := range []string{"f", "u"} {
		for name, script := range map[string]func(rwWait) script.Call{"try": rwWait.try, "enqueue": rwWait.enqueue} {
			t.Run(mode+"/"+name, func(t *testing.T) {
				x, y, w := rwWaitNamed("c1", 1, "s"+mode), rwWaitNamed("c2", 1, "s"+mode), rwWaitNamed("c5", 1, "w"+mode)
				b := newRWBench(t, s)
				overtakes := func(ago time.Duration) bool {
					b.do("DEL", b.key, b.queue(), b.beats())
					require.Equal(t, "1", b.code(x.try()))
					b.show(map[string]shownBeat{"c5": {0, 0}})
					b.stand(ago, w)
					b.do("HSET", b.beats(), "t", b.now()-ago.Microseconds())
					return b.code(script(y)) == "1"
				}
				require.False(t, overtakes(time.Minute))
				require.False(t, overtakes(-time.Minute), "the clock has gone back")
				if mode == "f" {
					require.False(t, overtakes(0))
					return
				}
				b.until(func() bool { return overtakes(0) }, "a young wait is overtaken")
				require.Equal(t, []string{x.reads(), y.reads()}, b.lock())
				b.requireQueue("it waits on", w)
			})
		}
	}
	t.Run("with a place", func(t *testing.T) {
		b := newRWBench(t, s)
		x := rwWaitNamed("c1", 1, "su")
		b.until(func() bool {
			b.do("DEL", b.key, b.queue(), b.beats())
			b.show(map[string]shownBeat{"c9": {0, 0}})
			b.stand(0, rwWaitNamed("c9", 1, "wu"), x)
			return b.code(x.enqueueAgain("5")) == "1" && len(b.waits()) == 1
		}, "its place goes")
		require.Equal(t, []string{x.reads()}, b.lock())
	})
}

// hand_on: whose turn it is, behind waits of clients that are gone.
func TestRWScriptHandOn(t *testing.T) {
	s := redistest.Shared(t)
	x, y, v, w := rwWaitNamed("c1", 1, "sf"), rwWaitNamed("c2", 1, "sf"), rwWaitNamed("c4", 1, "wf"), rwWaitNamed("c5", 1, "wf")
	live := map[string]shownBeat{"c1": {0, 0}, "c2": {0, 0}, "c4": {0, 0}, "c5": {0, 0}}
	plain := rwWait{waitNamed("c1", 9, "pf")}
	long := rwWait{scriptWait("c1:8:sf:" + strings.Repeat("9", 16))}
	for _, tt := range []struct {
		name   string
		before []rwWait // take it
		line   []rwWait
		script script.Call
		answer string
		lock   []string
		left   []rwWait
	}{
		{"to one who writes", nil, append(rwGone(3, "sf"), w, x), rwNobody.cancel(0), "1", []string{w.reserved()}, []rwWait{x}},
		{"to those who read", nil, append(rwGone(3, "wf"), x, y, w), rwNobody.cancel(0), "1", []string{x.reserved(), y.reserved()}, []rwWait{w}},
		{"others may read along", []rwWait{x}, append(rwGone(3, "wf"), y, w), rwNobody.cancel(0), "1", []string{x.reads(), y.reserved()}, []rwWait{w}},
		{"held to write", []rwWait{v}, append(rwGone(3, "wf"), y), rwNobody.cancel(0), "1", []string{v.writes()}, append(rwGone(3, "wf"), y)},
		{"all gone", nil, rwGone(3, "wf"), rwNobody.cancel(0), "1", nil, nil},
		{"what is no wait of ours", nil, []rwWait{plain, long, w}, rwNobody.cancel(0), "1", []string{w.reserved()}, nil},
		{"claim, the first", nil, append(rwGone(3, "sf"), w, x), w.claim(), "1", []string{w.writes()}, []rwWait{x}},
		{"claim, the first, those who read come along", nil, []rwWait{x, y, w}, x.claim(), "1", []string{x.reads(), y.reserved()}, []rwWait{w}},
		{"claim, not the first", nil, []rwWait{x, y, w}, y.claim(), "1", []string{x.reserved(), y.reads()}, []rwWait{w}},
		{"claim, to write, not the first", nil, []rwWait{x, w}, w.claim(), "0", []string{x.reserved()}, []rwWait{w}},
		{"claim, not queued", nil, []rwWait{x, w}, y.claim(), "3", []string{x.reserved()}, []rwWait{w}},
		{"claim, beside one who reads", []rwWait{y}, []rwWait{x, w}, x.claim(), "1", []string{x.reads(), y.reads()}, []rwWait{w}},
		{"try, others are gone", nil, rwGone(3, "wf"), x.try(), "1", []string{x.reads()}, nil},
		{"try, others read along", nil, []rwWait{x}, y.try(), "1", []string{x.reserved(), y.reads()}, nil},
		{"try, to write, others read", nil, []rwWait{x}, w.try(), "0", []string{x.reserved()}, nil},
		{"try, another writes", nil, []rwWait{w}, x.try(), "0", []string{w.reserved()}, nil},
		{"enqueue, others are gone", nil, rwGone(3, "wf"), x.enqueue(), "1", []string{x.reads()}, nil},
		{"enqueue, others read along", nil, []rwWait{x}, y.enqueue(), "1", []string{x.reserved(), y.reads()}, nil},
		{"enqueue, with its ticket", nil, []rwWait{x, w, y}, y.enqueueAgain("5"), "0", []string{x.reserved()}, []rwWait{w, y}},
		{"release", []rwWait{v}, []rwWait{x, y, w}, v.release(), "1", []string{x.reserved(), y.reserved()}, []rwWait{w}},
		{"release, one reads on", []rwWait{x, y}, []rwWait{w}, x.release(), "1", []string{y.reads()}, []rwWait{w}},
		{"cancel of one who kept others", []rwWait{x}, []rwWait{w, y}, w.cancel(1), "1", []string{x.reads(), y.reserved()}, nil},
		{"poll", nil, []rwWait{w, x}, rwPollAs("c9"), "1", []string{w.reserved()}, []rwWait{x}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newRWBench(t, s)
			for _, w := range tt.before {
				require.Equal(t, "1", b.code(w.try()))
			}
			b.show(live)
			b.stand(time.Minute, tt.line...)
			b.steps(rwStep{"", tt.script, tt.answer, tt.lock, tt.left})
		})
	}
}

// A client whose subscription the server does not see any more is gone: at once for an unfair wait, after a period for a fair one.
func TestRWScriptHandOnToNobody(t *testing.T) {
	s := redistest.Shared(t)
	for _, tt := range []struct {
		mode  string
		beat  shownBeat
		heard bool
		gone  bool
	}{
		{"u", shownBeat{0, 1}, false, true},
		{"u", shownBeat{0, 1}, true, false},
		{"u", shownBeat{0, 0}, false, false},
		{"f", shownBeat{0, 1}, false, false},
		{"f", shownBeat{3 * scriptPeriod / 2, 1}, false, true},
		{"f", shownBeat{3 * scriptPeriod / 2, 1}, true, false},
		{"f", shownBeat{3 * scriptPeriod / 2, 0}, false, false},
		{"f", shownBeat{3 * scriptPeriod, 1}, true, true},
	} {
		t.Run(fmt.Sprintf("%+v", tt), func(t *testing.T) {
			b := newRWBench(t, s)
			x, w := rwWaitNamed("c1", 1, "s"+tt.mode), rwWaitNamed("c5", 1, "w"+tt.mode)
			b.show(map[string]shownBeat{"c1": tt.beat, "c5": {0, 0}})
			if tt.heard {
				b.listen(s, "c1")
			}
			b.stand(time.Minute, x, w)
			require.Equal(t, "1", b.code(rwNobody.cancel(0)))
			if tt.gone {
				require.Equal(t, []string{w.reserved()}, b.lock())
			} else {
				require.Equal(t, []string{x.reserved()}, b.lock())
			}
		})
	}
}

// No script looks at more than 128 waits. Whoever finds that there are more says so, and a cancel for nobody goes on.
func TestRWScriptHandOnLimit(t *testing.T) {
	s := redistest.Shared(t)
	x, w := rwWaitNamed("c1", 1, "sf"), rwWaitNamed("c5", 1, "wf")
	for name, script := range map[string]script.Call{
		"try": rwWaitNamed("c2", 1, "sf").try(), "enqueue": rwWaitNamed("c2", 1, "sf").enqueue(), "claim": w.claim(), "release": x.release(),
		"cancel": x.cancel(1), "cancel for nobody": rwNobody.cancel(0), "poll": rwPollAs("c5"),
	} {
		t.Run(name, func(t *testing.T) {
			b := newRWBench(t, s)
			if name == "release" || name == "cancel" {
				require.Equal(t, "1", b.code(x.try()))
			}
			b.show(map[string]shownBeat{"c5": {0, 0}})
			b.stand(time.Minute, append(rwGone(200, "sf"), w)...)
			require.Equal(t, "4", b.code(script))
			require.Empty(t, b.lock())
			require.Equal(t, "1", b.code(rwNobody.cancel(0)))
			require.Equal(t, []string{w.reserved()}, b.lock())
		})
	}
}
