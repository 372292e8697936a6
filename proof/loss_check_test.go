package proof

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// loss is what is known of one hold that was lost. All times are by one clock.
type loss struct {
	name    string
	gone    int64 // the key's end at the server; it is there before
	context int64 // the end of the hold's context, as the goroutine that waits for it saw it
	err     int64 // before the last call of Err that returned nil; 0 where nobody asked
	late    int64 // by how much the process's timers were late around the end, at most
	starved bool  // more goroutines than the process can run, so any may not run for seconds
}

// lossVerdict is what the losses of a run show.
type lossVerdict struct {
	runs, asked, held      int   // held: those whose process was held up, by their late timers
	starved                int   // contexts that ended too late in a starved process, though its timers were in time
	leastErr, leastContext int64 // how long before the key's end, at least
	leastByTimer, byTimer  int64 // the context if Err was not called, which would cancel it, and their number
	leastHeld, mostLate    int64
	violations             []string
}

// judgeLosses checks that each hold ended before its key. By Err it always
// must. By its context it must if goroutines run, and timers fire within a
// quarter of the drift. If timers are later, the context may be late by as
// much.
func judgeLosses(losses []loss, drift time.Duration) *lossVerdict {
	v := &lossVerdict{
		leastErr: math.MaxInt64, leastContext: math.MaxInt64, leastByTimer: math.MaxInt64, leastHeld: math.MaxInt64,
	}
	for _, l := range losses {
		v.runs++
		if l.err > 0 {
			v.asked++
			v.leastErr = min(v.leastErr, l.gone-l.err)
			if l.gone < l.err {
				v.violations = append(v.violations, l.name+": Err said nil "+millis(l.err-l.gone)+" after the key had expired")
			}
		}
		v.judgeContext(l, drift)
	}
	return v
}

func (v *lossVerdict) judgeContext(l loss, drift time.Duration) {
	before, excused := l.gone-l.context, int64(0)
	switch {
	case l.late > int64(drift)/4:
		v.held++
		v.mostLate, v.leastHeld = max(v.mostLate, l.late), min(v.leastHeld, before)
		excused = l.late
	case l.starved && before < 0:
	default:
		v.leastContext = min(v.leastContext, before)
		if l.err == 0 {
			v.byTimer++
			v.leastByTimer = min(v.leastByTimer, before)
		}
	}
	switch {
	case before >= -excused:
	case l.starved:
		v.starved++
	default:
		v.violations = append(v.violations,
			l.name+": the context ended "+millis(-before)+" after the key had expired, timers were late by "+millis(l.late))
	}
}

func TestTheCheckerFindsLateLosses(t *testing.T) {
	t.Parallel()
	good := loss{name: "good", gone: 1000, context: 990, err: 980}
	lateContext := loss{name: "late context", gone: 1000, context: 1001}
	late := loss{name: "late", gone: 1000, context: 1013, err: 999, late: 13}
	later := loss{name: "later than its timers", gone: 1000, context: 1014, err: 999, late: 13}
	starved := loss{name: "starved", gone: 1000, context: 1001, err: 999, starved: true}
	lateErr := loss{name: "late Err", gone: 1000, context: 1002, err: 1001, late: 26, starved: true}

	v := judgeLosses([]loss{good, late, starved}, 50)
	require.Empty(t, v.violations)
	require.Equal(t, []int64{3, 3, 1, 1, 1, 10},
		[]int64{int64(v.runs), int64(v.asked), int64(v.held), int64(v.starved), v.leastErr, v.leastContext})
	require.Equal(t, int64(-13), v.leastHeld)
	require.Zero(t, v.byTimer)
	v = judgeLosses([]loss{good, {name: "by the timer", gone: 1000, context: 995}}, 50)
	require.Equal(t, []int64{1, 5, 5}, []int64{v.byTimer, v.leastByTimer, v.leastContext})
	require.Len(t, judgeLosses([]loss{good, lateContext}, 50).violations, 1)
	require.Len(t, judgeLosses([]loss{good, later}, 50).violations, 1)
	require.Len(t, judgeLosses([]loss{good, lateErr}, 50).violations, 1, "Err has no excuse")
}
