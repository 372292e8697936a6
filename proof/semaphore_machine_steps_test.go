package proof

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/locktest"
)

// The steps of the state machine of a semaphore.

// permitHold is a permit that a caller has, and may have lost.
type permitHold struct {
	relock.Hold
	id     string
	client int
}

func (m *permitMachine) drawCall() permitCall {
	return permitCall{
		client: rapid.IntRange(0, len(m.clients)-1).Draw(m.T, "client"),
		limit:  rapid.IntRange(max(1, m.most-1), m.most).Draw(m.T, "limit"),
		lease:  rapid.SampledFrom(machineLeases).Draw(m.T, "lease"),
		keep:   rapid.SampledFrom([]time.Duration{0, 0, 70 * time.Second}).Draw(m.T, "minimum hold"),
		label:  "call" + strconv.Itoa(len(m.trail)),
	}
}

func (m *permitMachine) semaphore(c permitCall, opts ...relock.LockOption) *relock.Semaphore {
	opts = append(opts, relock.WithWatchdog(c.lease), relock.WithPollInterval(machinePoll), relock.WithLabel(c.label))
	if c.keep > 0 {
		opts = append(opts, relock.WithMinHold(c.keep))
	}
	if m.fair {
		opts = append(opts, relock.WithFair())
	}
	return relock.NewSemaphore(m.key(), c.limit, m.clients[c.client], opts...)
}

// idOf returns the id of the permit that a call got, as the server has it.
func (m *permitMachine) idOf(c permitCall) string {
	return locktest.HoldOf(m.t, m.conn, machineKey(m.key()), c.label)
}

// hold takes down a permit that a call got.
func (m *permitMachine) hold(h relock.Hold, w *permitWait) {
	require.Equal(m, w.id, m.idOf(w.permitCall))
	m.holds = append(m.holds, &permitHold{h, w.id, w.client})
}

// mayTake reports what may become of a newcomer that asks between two times: an
// unfair one may overtake a waiter that has just come.
func (m *permitMachine) mayTake(c permitCall, first, last int64) (granted, refused bool) {
	if !m.model.fits(c) {
		return false, true
	}
	if len(m.model.queue) == 0 {
		return true, false
	}
	const recent = 10_000
	first, last = first-m.model.queue[0].ticket, last-m.model.queue[0].ticket // negative if the clock was set back
	return !m.fair && first <= recent && last >= 0, m.fair || first < 0 || last > recent
}

func (m *permitMachine) tryStep() {
	c := m.drawCall()
	var h relock.Hold
	var err error
	noMemory := m.call(func(ctx context.Context) { h, err = m.semaphore(c).TryAcquire(ctx) })
	granted, refused := m.mayTake(c, m.start, m.snapshot().now)
	switch {
	case err == nil:
		require.True(m, granted, "a permit that is not free")
		w := &permitWait{permitCall: c, id: m.idOf(c)}
		m.model.entries[w.id] = c.entry()
		m.hold(h, w)
	case errors.Is(err, relock.ErrLockAcquiredByOthers):
		require.True(m, refused, "a free permit is refused")
	case noMemory:
		require.ErrorContains(m, err, "OOM") // and there is no permit
	default:
		isUnknown(m.T, err) // a permit that it may have taken is released
	}
}

func (m *permitMachine) waitStep() {
	w := &permitWait{permitCall: m.drawCall(), result: make(chan permitResult, 1)}
	ctx, cancel := context.WithCancel(context.Background())
	w.cancel = cancel
	s := m.semaphore(w.permitCall, relock.WithBlock())
	m.call(func(context.Context) {
		go func() {
			h, err := s.Acquire(ctx)
			w.result <- permitResult{h, err}
		}()
		m.model.queue = append(m.model.queue, w)
		for end := time.Now().Add(machinePatience); w.id == ""; time.Sleep(time.Millisecond) {
			require.True(m, time.Now().Before(end), "a call neither waits nor has a permit")
			m.arrived(w)
			m.freeMemory() // a waiter asks again until there is some
		}
	})
}

// arrived takes down whether a call waits, or has a permit.
func (m *permitMachine) arrived(w *permitWait) {
	queue := m.model.queue[:len(m.model.queue)-1]
	s := m.snapshot()
	before := &permitMachine{fair: m.fair, model: &permitModel{entries: m.model.entries, queue: queue}}
	granted, refused := before.mayTake(w.permitCall, m.start, s.now)
	if len(w.result) > 0 {
		m.model.queue = queue
		h := w.await(m)
		require.True(m, granted, "a permit that is not free")
		w.id = m.idOf(w.permitCall)
		m.model.entries[w.id] = w.entry()
		m.hold(h, w)
		return
	}
	// A poll that was under way may put an entry back that was cancelled. The
	// client cancels it again.
	i := slices.IndexFunc(s.queue, func(name string) bool { return !m.known[holdOf(name)] })
	if i >= 0 {
		require.True(m, refused, "it waits for a free permit")
		w.id, w.ticket = holdOf(s.queue[i]), s.tickets[s.queue[i]]
		m.known[w.id] = true
	}
}

func (m *permitMachine) stopStep() {
	w := rapid.SampledFrom(m.model.queue).Draw(m.T, "waiter")
	m.call(func(context.Context) { w.cancel() })
	m.model.queue = slices.DeleteFunc(m.model.queue, func(other *permitWait) bool { return other == w })
	m.ended(w, context.Canceled)
}

func (m *permitMachine) ended(w *permitWait, want error) {
	r := <-w.result
	require.ErrorIs(m, r.err, want)
	require.Nil(m, r.hold)
}

func (m *permitMachine) unlockStep() {
	m.unlock(rapid.SampledFrom(m.holds).Draw(m.T, "hold"))
}

func (m *permitMachine) unlock(h *permitHold) {
	m.holds = slices.DeleteFunc(m.holds, func(other *permitHold) bool { return other == h })
	var err error
	noMemory := m.call(func(ctx context.Context) { err = h.Unlock(ctx) })
	if e, ok := m.model.entries[h.id]; ok && e.kind == "r" {
		require.True(m, err == nil || !noMemory && isUnknown(m.T, err), "%v", err)
		m.model.leave(h.id, "k", m.start)
	} else if !errors.Is(err, relock.ErrLockLost) || !errors.Is(err, relock.ErrNotHeld) {
		// An earlier copy may have been executed, or a restart has cut it off.
		require.True(m, err == nil && m.armed.Load().isMet() || isUnknown(m.T, err), "a lost hold is unlocked")
	}
}

// inspectStep compares what an operator sees. A poll that was under way may put
// an entry back for a moment, as in arrived. Then the operator looks again.
func (m *permitMachine) inspectStep() {
	var info relock.Info
	var err error
	waiting := m.snapshot().waiting
	m.call(func(ctx context.Context) { info, err = m.clients[0].Inspect(ctx, m.key()) })
	for range 10 {
		if err != nil || slices.Equal(m.inspected(waiting), seenOf(info)) {
			break
		}
		waiting = m.snapshot().waiting
		info, err = m.clients[0].Inspect(m.Context(), m.key())
	}
	if err != nil {
		isUnknown(m.T, err)
		return
	}
	require.Equal(m, m.inspected(waiting), seenOf(info))
}

func seenOf(info relock.Info) []any {
	return []any{info.State, len(info.Readers), info.Waiting, info.Permits}
}

// inspected returns what Inspect should see.
func (m *permitMachine) inspected(waiting int) []any {
	want, held := relock.StateFree, 0
	for _, e := range m.model.entries {
		if e.kind == "r" {
			held++
		}
		want = relock.StateKept
	}
	if held > 0 {
		want = relock.StateHeld
	}
	limit := 0
	if len(m.model.queue) > 0 {
		limit = m.model.queue[0].limit
	}
	return []any{want, held, waiting, limit}
}

// replaceStep closes a client. Its leases go on, and its waiters stay in the
// queue. They are passed over from now on, as the test removes its heartbeats.
func (m *permitMachine) replaceStep() {
	n := rapid.IntRange(0, len(m.clients)-1).Draw(m.T, "client")
	require.NoError(m, m.clients[n].Close())
	m.holds = slices.DeleteFunc(m.holds, func(h *permitHold) bool { return h.client == n })
	var others []*permitWait
	for _, w := range m.model.queue {
		if w.client == n {
			m.ended(w, relock.ErrClosed)
			id, _, _ := strings.Cut(w.id, ":")
			m.dead[id] = true
			m.do(m, "HDEL", machineKey(m.key())+":b", id)
		} else {
			others = append(others, w)
		}
	}
	m.model.queue = others
	m.clients[n] = m.open()
	m.poll()
}

// finish ends all calls, and checks that no key is left.
func (m *permitMachine) finish() {
	if m.isLate() {
		return
	}
	m.start = m.snapshot().now
	for _, w := range m.model.queue {
		w.cancel()
		m.ended(w, context.Canceled)
	}
	m.model.queue = nil
	for len(m.holds) > 0 {
		m.unlock(m.holds[0])
	}
	m.become()
	m.jump(time.Hour)
	m.become()
	m.clock.Advance(m.t, 4*time.Hour) // for the heartbeats
	require.Empty(m, m.do(m, "KEYS", "*"+m.key()+"*"), "keys are left")
}
