package lua_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

// manyPermits is a semaphore with as many permits in use as it can have, and as
// many waiters.
type manyPermits struct {
	*Queue
	held, waiters []Wait
}

// newManyPermits returns one that is empty until setUp.
func newManyPermits(t *testing.T, n int, keep time.Duration) *manyPermits {
	m := &manyPermits{Queue: NewQueue(t, redistest.Start(t))}
	for i := range n {
		m.held = append(m.held, PermitNamed("c1", 1+i, "f", n, keep))
		m.waiters = append(m.waiters, PermitNamed("c5", 1+i, "f", n, keep))
	}
	m.Do("CONFIG", "SET", "slowlog-log-slower-than", 0)
	return m
}

// setUp stores the permits in use, and the queue.
func (m *manyPermits) setUp(held, waiters []Wait, keep time.Duration) {
	m.Helper()
	m.Do("FLUSHALL")
	m.Live("c1", "c5")
	m.Put("cf", Lease, entries(held)...)
	if keep > 0 {
		numbers, end := []any{m.Key}, -(m.Now() + keep.Microseconds())
		for _, w := range held {
			numbers = append(numbers, end, "#"+w.Hold())
		}
		m.Do("ZADD", numbers...)
	}
	m.Line(time.Minute, waiters...)
}

// run runs a script, and returns how long the server took.
func (m *manyPermits) run(s script.Call) time.Duration {
	m.Helper()
	s.Key = m.Key
	m.Do("SCRIPT", "LOAD", s.Script.Source)
	m.Do("SLOWLOG", "RESET")
	r := s.ByDigest()
	m.Do(r.Cmd, r.Args...)
	return lastScript(m.Queue)
}

// With 10,000 permits in use, and 10,000 waiters, no script takes 1 ms, and
// none by force 5 ms. The fastest of several runs counts, since a busy machine
// holds others up.
func TestSemaphoreTenThousandPermitsCostLittle(t *testing.T) {
	const n, rounds = 10_000, 9
	m := newManyPermits(t, n, 0)
	newcomer := PermitNamed("c1", 2*n, "f", n, 0)
	all, waiters, first := m.held, m.waiters, m.held[0]
	batch := holdsOf(all[:256])
	marks, free := newcomer.End("end", "why", batch...), newcomer.End("free", "why", batch...)
	for name, step := range map[string]struct {
		held, waiters []Wait
		script        script.Call
		keep, limit   time.Duration
	}{
		"try beside the others":   {all[1:], nil, newcomer.Try(), 0, time.Millisecond},
		"try, refused":            {all, nil, newcomer.Try(), 0, time.Millisecond},
		"enqueue":                 {all, waiters, newcomer.Enqueue(), 0, time.Millisecond},
		"claim":                   {all[1:], waiters, waiters[0].Claim(), 0, time.Millisecond},
		"renew":                   {all, waiters, first.Renew(LongLease), 0, time.Millisecond},
		"release to a waiter":     {all, waiters, first.Release(), 0, time.Millisecond},
		"release, kept":           {all, nil, first.Release(), Keep, time.Millisecond},
		"cancel":                  {all, waiters, first.Cancel(1), 0, time.Millisecond},
		"poll":                    {all, waiters, waiters[0].Poll(string(waiters[0]), 5), 0, time.Millisecond},
		"force":                   {all, waiters, marks, 0, 5 * time.Millisecond},
		"force, and all are kept": {all, waiters, free, Keep, 5 * time.Millisecond},
	} {
		machine := testkit.NewStopwatch(t)
		var took []time.Duration
		for len(took) == 0 || len(took) < rounds && slices.Min(took) >= step.limit {
			m.setUp(step.held, step.waiters, step.keep)
			took = append(took, m.run(step.script))
		}
		t.Logf("%-25s %v", name, took)
		require.NoError(t, machine.Judge(slices.Min(took), step.limit), name)
	}
}
