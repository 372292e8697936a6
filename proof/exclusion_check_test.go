package proof

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/test/locktest"
)

// section is one critical section as reported by its holder. All times are by
// one clock.
type section struct {
	process, goroutine int
	from, until        int64 // the hold was valid: from the return of Lock to Unlock, the loss, or the last ValidUntil
	seen               int64 // when the hold was last seen to be valid
	valid              int64 // ValidUntil as read with the last check of Err
	checked, wrote     int64 // before the last Err that returned nil; after the write
	read, before       int64 // the value read, and the one that was overwritten
	done               bool  // the write was reported; else the process was killed around it
	tried              bool  // the holder went on to the write
}

func (s *section) value() int64 { return s.read + 1 }

func (s *section) String() string {
	return fmt.Sprintf("process %d goroutine %d, valid %d to %d, checked %d, wrote %d, read %d, overwrote %d",
		s.process, s.goroutine, s.from, s.until, s.checked, s.wrote, s.read, s.before)
}

// halt is a time in which a process was stopped.
type halt struct {
	process     int
	from, until int64
}

func millis(ns int64) string { return time.Duration(ns).Round(10 * time.Microsecond).String() }

// verdict is what the sections of a run show.
type verdict struct {
	increments int // writes
	stopped    int // of them, stale ones of a process that was stopped between its check and its write
	stalled    int // stale ones of a process that the machine delayed beyond the checked validity
	overrun    int // good ones that found a stale write of another in between
	lost       int64
	unknown    int // writes of processes that were killed
	violations []string
}

// mostStalled is how many stale writes by processes that were not stopped a
// busy machine may explain: next to none.
func (v *verdict) mostStalled() int { return 5 + v.increments/2000 }

func (v *verdict) violate(format string, args ...any) {
	v.violations = append(v.violations, fmt.Sprintf(format, args...))
}

// judgeSections checks that no two holds were valid together, and that every
// lost update has a documented reason. The final value must be the number of
// increments less the losses.
func judgeSections(sections []section, halts []halt, final int64) *verdict {
	v := &verdict{}
	v.judgeOverlaps(sections)
	stale := v.judgeWrites(sections, halts)
	if len(stale) == 0 {
		v.countValues(sections, final)
	}
	sum := int64(0)
	for i := range sections {
		if s := &sections[i]; s.done {
			sum += 1 - (s.before - s.read)
		}
	}
	if left := final - sum; left < 0 || left > int64(v.unknown) {
		v.violate("the register says %d, the increments make %d, and %d are unknown", final, sum, v.unknown)
	}
	return v
}

// judgeOverlaps finds two holders at the same time. A holder is a section,
// since those of one goroutine exclude each other too.
func (v *verdict) judgeOverlaps(sections []section) {
	for _, two := range locktest.Overlaps(sections, func(s section) locktest.Span {
		return locktest.Span{From: s.from, Until: s.until}
	}) {
		v.violate("two holders together for %s: %v; and %v", millis(two[0].until-two[1].from), &two[0], &two[1])
	}
}

// judgeWrites finds and returns the writes that replaced another value than the
// one read. A stale one may find what it has read, and be none of them.
func (v *verdict) judgeWrites(sections []section, halts []halt) (wrong []*section) {
	var stale []*section
	for i := range sections {
		switch s := &sections[i]; {
		case s.tried && !s.done:
			v.unknown++
		case s.done:
			v.increments++
			if s.checked >= s.valid && !haltedIn(halts, s) {
				v.violate("Err said nothing %s after the end of the validity: %v", millis(s.checked-s.valid), s)
			}
			if s.wrote > s.valid || haltedIn(halts, s) {
				stale = append(stale, s)
			}
			if s.before != s.read {
				wrong = append(wrong, s)
			}
		}
	}
	var rest []*section
	for _, s := range wrong {
		switch {
		case haltedIn(halts, s):
			v.stopped++
		case s.wrote > s.valid:
			v.stalled++
		default:
			rest = append(rest, s)
		}
		v.lost += s.before - s.read
	}
	for _, s := range rest {
		if slices.ContainsFunc(stale, s.overrunBy) {
			v.overrun++
		} else {
			v.violate("an update was lost without a reason: %v", s)
		}
	}
	return wrong
}

func haltedIn(halts []halt, s *section) bool {
	return slices.ContainsFunc(halts, func(h halt) bool {
		return h.process == s.process && h.from < s.wrote && h.until > s.checked
	})
}

// overrunBy reports whether a stale write came between the read and the write
// of s.
func (s *section) overrunBy(stale *section) bool {
	return stale.value() == s.before && stale.checked < s.wrote && stale.wrote > s.from
}

// countValues checks that each value was written once, if no update was lost. A
// killed process may have written one without a report.
func (v *verdict) countValues(sections []section, final int64) {
	reported, unreported := map[int64]int{}, map[int64]int{}
	for i := range sections {
		switch s := &sections[i]; {
		case s.done:
			reported[s.value()]++
		case s.tried:
			unreported[s.value()]++
		}
	}
	for n := int64(1); n <= final; n++ {
		if reported[n] > 1 || reported[n] == 0 && unreported[n] == 0 {
			v.violate("the value %d was written by %d that report it and %d that were killed", n, reported[n], unreported[n])
		}
	}
}

// goodRun is what 6 sections of 3 processes report that exclude each other.
func goodRun() []section {
	var run []section
	for i := range 6 {
		at := int64(i) * 100
		run = append(run, section{
			process: i % 3, from: at + 10, until: at + 90, valid: at + 200, checked: at + 40, wrote: at + 60,
			read: int64(i), before: int64(i), tried: true, done: true,
		})
	}
	return run
}

func TestTheCheckerFindsNothingInAGoodRun(t *testing.T) {
	t.Parallel()
	v := judgeSections(goodRun(), []halt{{1, 0, math.MaxInt64}}, 6)
	require.Equal(t, &verdict{increments: 6}, v)
}

// A process that is killed may or may not have written.
func TestTheCheckerKnowsKilledWriters(t *testing.T) {
	t.Parallel()
	run := goodRun()
	run[3].done, run[3].before, run[3].wrote = false, 0, 0
	require.Equal(t, &verdict{increments: 5, unknown: 1}, judgeSections(run, nil, 6))

	run = append(goodRun(), section{process: 4, from: 610, until: 700, read: 6, tried: true})
	require.Empty(t, judgeSections(run, nil, 6).violations, "killed before the write")
	require.Empty(t, judgeSections(run, nil, 7).violations, "and after it")
	require.NotEmpty(t, judgeSections(run, nil, 8).violations)
	run[6].tried = false
	require.NotEmpty(t, judgeSections(run, nil, 7).violations, "no process can have written that")
}

// The checker explains a stale write by a stop only if it stopped the process
// at that time.
func TestTheCheckerKnowsStaleWrites(t *testing.T) {
	t.Parallel()
	run := goodRun()
	run[1].wrote, run[1].before = 520, 5 // it was valid until 190, and comes when the sixth section has read 5
	run[5].before = 2
	explained := []halt{{1, 145, 515}}
	for name, test := range map[string]struct {
		halts []halt
		valid int64
		clean bool
	}{
		"stopped between check and write": {explained, 600, true},
		"stopped before the check":        {[]halt{{1, 100, 139}}, 600, false},
		"stopped after the write":         {[]halt{{1, 521, 600}}, 600, false},
		"another process was stopped":     {[]halt{{2, 145, 515}}, 600, false},
		"not stopped":                     {nil, 600, false},
		"the machine stalled":             {nil, 300, true},
	} {
		run[1].valid = test.valid
		v := judgeSections(run, test.halts, 6-(5-1)-(2-5))
		require.Equal(t, test.clean, len(v.violations) == 0, "%s: %v", name, v.violations)
		if test.clean {
			require.Equal(t, 1, v.stopped+v.stalled, name)
			require.Equal(t, 1, v.overrun, name)
			require.Equal(t, int64(1), v.lost, name)
		}
	}
	run[1].valid = 600
	require.NotEmpty(t, judgeSections(run, explained, 6).violations, "the register does not fit the losses")
}

// A stale write that finds the value it has read overruns the next holder, if
// that has read the same one.
func TestTheCheckerKnowsStaleWritesThatLoseNothing(t *testing.T) {
	t.Parallel()
	run := goodRun()
	run[3].wrote, run[3].valid = 445, 390
	run[4].read, run[4].before = 3, 4
	run[5].read, run[5].before = 4, 4
	require.Equal(t, &verdict{increments: 6, overrun: 1, lost: 1}, judgeSections(run, nil, 5))
	run[3].valid = 500
	require.NotEmpty(t, judgeSections(run, nil, 5).violations, "it was not stale")
}

// A process that continues after a stall must learn of the loss from Err. It is
// no excuse that there was no other write meanwhile.
func TestTheCheckerFindsAnErrThatSaysNothing(t *testing.T) {
	t.Parallel()
	run := goodRun()
	run[2].valid = run[2].checked + 1
	require.Empty(t, judgeSections(run, nil, 6).violations)
	run[2].valid = run[2].checked
	require.Len(t, judgeSections(run, nil, 6).violations, 1)
	stopped := []halt{{run[2].process, run[2].checked, run[2].wrote}}
	require.Empty(t, judgeSections(run, stopped, 6).violations, "it was stopped between both")
}

func TestTheCheckerFindsTwoHolders(t *testing.T) {
	t.Parallel()
	run := goodRun()
	run[2].until = 311
	require.Len(t, judgeSections(run, nil, 6).violations, 1, "for a nanosecond")
	run[2].until = 310
	require.Empty(t, judgeSections(run, nil, 6).violations, "one after the other")
	run[0].until = 460
	require.Len(t, judgeSections(run, nil, 6).violations, 4, "under all later ones")
	run = append(goodRun(), section{process: 9, from: goodRun()[2].from + 1})
	require.Empty(t, judgeSections(run, nil, 6).violations, "a hold that was never valid")
}
