package proof

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/script"
)

// What happens to the permits: longer leases, operators, clocks, restarts, full
// memory.

// extendStep makes a lease longer, or leaves it alone if it is. It needs no
// memory.
func (m *permitMachine) extendStep() {
	h := rapid.SampledFrom(m.holds).Draw(m.T, "hold")
	d := rapid.SampledFrom([]time.Duration{machineLeases[0] / 2, machineLeases[1] + machineGap, 2 * machineLeases[2]}).
		Draw(m.T, "lease")
	var err error
	noMemory := m.call(func(ctx context.Context) { err = h.Extend(ctx, d) })
	e, ok := m.model.entries[h.id]
	if ok && e.kind == "r" {
		require.True(m, err == nil || !noMemory && isUnknown(m.T, err), "%v", err)
		e.extended, e.maybe = d, err != nil
		m.model.entries[h.id] = e
		return
	}
	require.Error(m, err, "a lost hold is extended")
	if errors.Is(err, relock.ErrLockLost) {
		m.holds = slices.DeleteFunc(m.holds, func(other *permitHold) bool { return other == h })
	}
}

// forceStep waits for no holder: the clock of the machine stands still.
func (m *permitMachine) forceStep() {
	force := func() error { return m.clients[0].ForceUnlock(m.Context(), m.key(), "test", relock.WithoutAck()) }
	err := force()
	again := false
	for err != nil && !errors.Is(err, relock.ErrNotHeld) && isUnknown(m.T, err) { // a restart has cut it off
		again = true
		err = force()
	}
	held := func(e permitEntry) bool { return e.kind == "r" }
	if !slices.ContainsFunc(slices.Collect(maps.Values(m.model.entries)), held) {
		require.True(m, err == nil || errors.Is(err, relock.ErrNotHeld), "%v", err) // a reservation may be there
		return
	}
	require.True(m, err == nil || again, "%v", err)
	for id, e := range m.model.entries {
		if e.kind == "r" {
			m.model.leave(id, "f", m.start)
		}
	}
}

// clockStep moves the server's clock ahead, by a time that is clearly before or
// after each end. The queue stays, as if its clients had polled meanwhile.
func (m *permitMachine) clockStep() {
	jumps := []time.Duration{time.Second, 35 * time.Second, 90 * time.Second, 250 * time.Second}
	m.jump(m.clear(rapid.SampledFrom(jumps).Draw(m.T, "jump"), machineGap/2))
}

// clockBackStep sets it back. All permits last longer then, and those that had
// ended and that no script has removed are back. They are never too many.
func (m *permitMachine) clockBackStep() {
	jumps := []time.Duration{-time.Second, -20 * time.Second, -120 * time.Second}
	m.jump(m.clear(rapid.SampledFrom(jumps).Draw(m.T, "jump"), -machineGap/2))
}

// clear returns a jump that is long enough to come close to no end.
func (m *permitMachine) clear(d, more time.Duration) time.Duration {
	for m.model.isClose(m.start + d.Microseconds()) {
		d += more
	}
	return d
}

func (m *permitMachine) jump(d time.Duration) {
	key := machineKey(m.key())
	m.do(m, "PEXPIRE", key+":q", ms(2*d.Abs()+time.Hour))
	m.do(m, "PEXPIRE", key+":b", ms(2*d.Abs()+time.Hour))
	m.clock.Advance(m.t, d)
	m.start += d.Microseconds() // a waiter may poll from here on
	m.model.expire(m.start)
	if d < 0 {
		m.model.revive(m.snapshot().entries, m.start)
	}
	m.poll()
}

// poll hands off what is free, as the next poll of a client does, for which the
// test need not wait.
func (m *permitMachine) poll() {
	key := machineKey(m.key())
	m.do(m, "EVAL", script.SemaphoreCancel.Source, 4, key, key+":q", key+":b", key+":h", "", 0)
}

func (m *permitMachine) cutStep() { m.do(m, "CLIENT", "KILL", "TYPE", "pubsub") }

// restartStep kills the server, and restarts it from its append-only file.
// Nothing is lost but connections: calls that meet a dead one are not answered.
func (m *permitMachine) restartStep() {
	_ = m.conn.Close() // it is cut anyway
	m.server.Kill(m.t)
	m.server.BootAndLoad(m.t)
	m.connect()
	m.start = m.snapshot().now
}

// freeMemory ends the fault of a full memory.
func (b *permitBench) freeMemory() { b.do(b.t, "CONFIG", "SET", "maxmemory", "0") }
