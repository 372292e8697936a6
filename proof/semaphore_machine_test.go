package proof

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/faults"
)

// TestSemaphoreStateMachine makes random calls of one semaphore by two clients,
// with different limits, fair and unfair, with and without a minimum hold.
// Holds are extended. Meanwhile messages are lost, doubled and late,
// connections are cut, the memory is full, and clients are replaced. The
// server's clock jumps and is set back, its scripts are flushed, and it is
// killed and restarted from its append-only file. After each step the server's
// permits and queue are compared with a model.
//
// A failure prints the shortest sequence that was found, and a seed.
func TestSemaphoreStateMachine(t *testing.T) {
	t.Parallel()
	b := &permitBench{bench: newBench(t, appendOnly("no")...)}
	b.proxy = faults.Start(t, b.server.Network, b.server.Address)
	for _, f := range permitFaults {
		b.proxy.On(func(args []string) bool { return isScript(args) && b.meets(f.name) }, faults.Every, f.action)
	}
	defer b.report(t)
	for range pick(8, 1) {
		rapid.Check(t, b.runPermits)
	}
	t.Logf("%d of the steps met a fault", b.met)
}

// permitFaults are those of tasks, except for two that need more than the
// proxy, and one that makes a permit which nobody has until its lease ends.
var permitFaults = slices.DeleteFunc(slices.Clone(taskFaults), func(f taskFault) bool {
	return slices.Contains([]string{notPermitted, callerLeaves, lateAndCut}, f.name)
})

// permitBench is what all runs share.
type permitBench struct {
	*bench
	proxy *faults.Proxy
	armed atomic.Pointer[permitFault]
	met   int
}

// key is the name of the semaphore, another one in each run. A late request of
// an earlier run may still come.
func (b *permitBench) key() string { return fmt.Sprint("permits ", b.runs) }

// permitFault is the fault that a script meets, after some others.
type permitFault struct {
	name string
	skip atomic.Int64
}

// isMet reports whether a script has met the fault. f may be nil.
func (f *permitFault) isMet() bool { return f != nil && f.skip.Load() < 0 }

// meets reports whether a script meets this fault.
func (b *permitBench) meets(name string) bool {
	f := b.armed.Load()
	return f != nil && f.name == name && f.skip.Add(-1) == -1
}

// permitMachine is one run.
type permitMachine struct {
	*permitBench
	*rapid.T
	begun   time.Time
	fair    bool
	most    int // the highest limit
	clients []*relock.Client
	known   map[string]bool // ids of calls that have waited
	dead    map[string]bool // ids of clients that were replaced while they waited
	model   *permitModel
	holds   []*permitHold // not yet unlocked, of clients that are not replaced
	start   int64         // of the step, by the server's clock
	trail   []string
	slow    bool // it was given up
}

func (b *permitBench) runPermits(r *rapid.T) {
	b.runs++
	m := &permitMachine{permitBench: b, T: r, begun: time.Now(), known: map[string]bool{}, dead: map[string]bool{}}
	m.model = &permitModel{entries: map[string]permitEntry{}, ended: map[string]permitEntry{}}
	m.armed.Store(nil)
	b.proxy.Release()
	b.freeMemory()
	b.do(r, "FLUSHALL")
	b.clock.Advance(b.t, -b.clock.Offset())
	m.fair, m.most = rapid.Bool().Draw(r, "fair"), rapid.IntRange(1, 3).Draw(r, "permits")
	for range machineClients {
		m.clients = append(m.clients, m.open())
	}
	defer m.close()
	r.Repeat(map[string]func(*rapid.T){"step": m.step})
	m.T = r
	m.finish()
}

// Errorf keeps the failure, which rapid forgets if it cannot repeat it.
func (m *permitMachine) Errorf(format string, args ...any) {
	if m.firstFailedAt == 0 {
		m.firstFailedAt = m.total()
	}
	m.t.Logf("after %s: %s", strings.Join(m.trail, "; "), fmt.Sprintf(format, args...))
	m.T.Errorf(format, args...)
}

func (m *permitMachine) open() *relock.Client {
	prefix, timeout := relock.WithKeyPrefix(machinePrefix), relock.WithCommandTimeout(taskTimeout)
	c, err := relock.NewClient(m.proxy.Network, m.proxy.Address, "", prefix, timeout)
	require.NoError(m, err)
	return c
}

func (m *permitMachine) close() {
	for _, w := range m.model.queue {
		w.cancel()
	}
	for _, c := range m.clients {
		_ = c.Close()
	}
	for _, w := range m.model.queue {
		<-w.result
	}
}

// isLate reports whether the run has taken so long that leases may expire or be
// renewed.
func (m *permitMachine) isLate() bool { return time.Since(m.begun) > machineTime }

func (m *permitMachine) step(r *rapid.T) {
	m.T = r
	if m.isLate() {
		if !m.slow {
			m.slow = true
			m.late++
		}
		return
	}
	s := draw(r, []command[func()]{
		{"wait", 6, len(m.model.queue) < 6, m.waitStep},
		{"unlock", 5, len(m.holds) > 0, m.unlockStep},
		{"try", 5, true, m.tryStep},
		{"stop waiting", 2, len(m.model.queue) > 0, m.stopStep},
		{"inspect", 1, true, m.inspectStep},
		{"force", 1, true, m.forceStep},
		{"extend", 3, len(m.holds) > 0, m.extendStep},
		{"clock jumps", 2, true, m.clockStep},
		{"clock is set back", 1, true, m.clockBackStep},
		{"client is replaced", 1, true, m.replaceStep},
		{"scripts are forgotten", 1, true, func() { m.do(m, "SCRIPT", "FLUSH") }},
		// Without a subscription an unfair waiter may be passed over.
		{"server is restarted", 1, m.fair || len(m.model.queue) == 0, m.restartStep},
		{"subscriptions are cut", 1, m.fair || len(m.model.queue) == 0, m.cutStep},
	})
	m.steps[s.name]++
	m.trail = append(m.trail, s.name)
	m.start = m.snapshot().now
	s.run()
	m.become()
}

// call makes a call during which a script may meet a fault. That may be one of
// a waiter, which the call wakes. It reports whether there was no memory.
func (m *permitMachine) call(f func(context.Context)) (noMemory bool) {
	if rapid.IntRange(0, 7).Draw(m.T, "fault") == 7 {
		fault := &permitFault{name: rapid.SampledFrom(permitFaults).Draw(m.T, "which").name}
		fault.skip.Store(int64(rapid.IntRange(0, 1).Draw(m.T, "skip")))
		m.trail = append(m.trail, "with "+fault.name)
		if noMemory = fault.name == memoryIsFull; noMemory {
			m.do(m, "CONFIG", "SET", "maxmemory", "1")
			defer m.freeMemory()
		}
		m.armed.Store(fault)
		defer m.release()()
	}
	f(m.Context())
	return noMemory
}

// release lets late requests through before their callers give up, until the
// function that it returns is called.
func (m *permitMachine) release() (stop func()) {
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-time.After(taskTimeout / 10):
				m.proxy.Release()
			case <-done:
				return
			}
		}
	}()
	return func() { close(done); <-ended }
}

// become requires that the server is soon as the model, once the waiters have
// what is free. Each of them has returned then, and no other.
func (m *permitMachine) become() {
	granted := m.model.handOff()
	differs, limit := "", machinePatience
	if m.firstFailedAt > 0 {
		limit = machinePatience / 20 // for a shorter sequence
	}
	for end := time.Now().Add(limit); time.Now().Before(end); time.Sleep(time.Millisecond) {
		m.proxy.Release()
		s := m.snapshot()
		require.LessOrEqual(m, s.live(), m.most, "too many permits: %v", s.entries)
		for _, w := range m.model.queue {
			require.Empty(m, w.result, "a call has returned that must wait")
		}
		if differs = m.model.compare(s, m.start); differs == "" && len(granted) == 0 {
			break
		}
		if differs == "" {
			for _, w := range granted { // it may have to repeat its request
				m.hold(w.await(m), w)
			}
			granted = nil
		}
	}
	require.Empty(m, differs)
	m.model.settle()
	if m.armed.Swap(nil).isMet() {
		m.met++
	}
}
