package locktest

import (
	"cmp"
	"slices"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/test/testkit"
)

// term is the time in which a process led. Its end is that of its function, or
// the last reported end of its validity if that is sooner.
type term struct {
	of          *Candidate
	from, until int64
	open        bool // its function has not ended
}

// termsOf returns what a process has reported.
func termsOf(c *Candidate) (terms []term) {
	for _, e := range c.Events() {
		last := len(terms) - 1
		switch e.Name {
		case "lead":
			terms = append(terms, term{c, e.At, e.Int(0), true})
		case "valid":
			terms[last].until = e.Int(0)
		case "end":
			terms[last].until, terms[last].open = min(terms[last].until, e.At), false
		}
	}
	return terms
}

// terms returns all terms, the oldest first. A process that was killed led no
// longer, and one whose hold was ended by force did not lead from then on.
func (e *Election) terms() (all []term) {
	for _, c := range e.all {
		for _, t := range termsOf(c) {
			if at, ok := e.killed[c]; ok {
				t.until = min(t.until, at)
			}
			for _, at := range e.forced {
				if t.from < at {
					t.until = min(t.until, at)
				}
			}
			all = append(all, t)
		}
	}
	slices.SortFunc(all, func(a, b term) int { return cmp.Compare(a.from, b.from) })
	return all
}

// newest waits until the newest term of a process that runs is as the test
// wants it.
func (e *Election) newest(wanted func(term) bool) (t term) {
	e.Helper()
	testkit.Eventually(e, testkit.Patience, func() bool {
		t = term{}
		for c := range e.alive {
			if terms := termsOf(c); len(terms) > 0 && terms[len(terms)-1].from > t.from {
				t = terms[len(terms)-1]
			}
		}
		return t.of != nil && wanted(t)
	}, "nobody leads")
	return t
}

// judge checks that no two processes led together, and no process twice.
func (e *Election) judge(n int) {
	e.Helper()
	all := e.terms()
	judged := 0
	for name, took := range e.took {
		slices.Sort(took)
		judged += len(took)
		e.Logf("%s: %d times, another process led after p50 %v, most %v",
			name, len(took), took[len(took)/2].Round(time.Millisecond), took[len(took)-1].Round(time.Millisecond))
	}
	e.Logf("%d terms of %d processes", len(all), len(e.all))
	require.Greater(e, len(all), n)
	require.Positive(e, judged, "no process waited")
	require.Empty(e, Overlaps(all, func(t term) Span { return Span{t.from, t.until} }), "two processes led together")
	for _, c := range e.all {
		for _, event := range c.Events() {
			require.NotEqual(e, "together", event.Name, "a function ran twice at the same time")
		}
	}
}
