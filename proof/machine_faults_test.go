package proof

import (
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/script"
)

// What happens to the holders: clocks, crashes, operators, late copies.

// advanceClockCommand makes the server's clock jump.
func (m *machine) advanceClockCommand(t *machineT) {
	jumps := []time.Duration{
		time.Second, 35 * time.Second, 90 * time.Second, 250 * time.Second, -20 * time.Second, -120 * time.Second,
	}
	m.advance(rapid.SampledFrom(jumps).Draw(t.T, "jump"))
}

// advance moves the clock, and a little further if it would come close to an
// expiry. It must be certain which of the two is first.
func (m *machine) advance(d time.Duration) {
	for m.isClose(d) {
		d += machineGap / 2
	}
	m.clock.Advance(m.t, d)
	for _, k := range m.keys {
		if !k.free() && m.expiry(k) < 0 {
			*k = modelKey{}
		}
	}
}

func (m *machine) isClose(d time.Duration) bool {
	for _, k := range m.keys {
		if left := m.expiry(k) - d; !k.free() && left.Abs() < machineGap {
			return true
		}
	}
	return false
}

// expiry is what a key has left, about.
func (m *machine) expiry(k *modelKey) time.Duration {
	return wall(k.ends.last).Sub(m.clock.Now())
}

// forgetScriptsCommand makes the server ask for the sources again.
func (m *machine) forgetScriptsCommand(t *machineT) { m.do(t, "SCRIPT", "FLUSH") }

// cutSubscriptionsCommand leaves waiters to their polls for a while.
func (m *machine) cutSubscriptionsCommand(t *machineT) { m.do(t, "CLIENT", "KILL", "TYPE", "pubsub") }

// deleteCommand deletes a key as an operator would. Its holder is not notified.
func (m *machine) deleteCommand(t *machineT) {
	lock := rapid.SampledFrom(machineLocks).Draw(t.T, "lock")
	m.do(t, "DEL", machineKey(lock))
	*m.keys[lock] = modelKey{}
}

// overwriteCommand is another program that uses the key.
func (m *machine) overwriteCommand(t *machineT) {
	lock := rapid.SampledFrom(machineLocks).Draw(t.T, "lock")
	sent := time.Now()
	m.do(t, "SET", machineKey(lock), "something else", "PX", ms(machineLeases[0]))
	*m.keys[lock] = modelKey{foreign: true}
	m.lengthen(m.keys[lock], span{sent, time.Now()}, machineLeases[0])
	m.refuseWaiters(t, lock)
}

// restartServerCommand kills the server, and restarts it from its append-only
// file.
func (m *machine) restartServerCommand(t *machineT) {
	_ = m.conn.Close() // it is cut anyway
	m.server.Kill(m.t)
	m.server.BootAndLoad(m.t)
	m.connect()
	for c := range m.clients {
		m.stale[c] = true
	}
}

// crashClientCommand closes a client without releasing its holds, like a
// process that crashes. Another client replaces it.
func (m *machine) crashClientCommand(t *machineT) {
	c := rapid.IntRange(0, machineClients-1).Draw(t.T, "client")
	require.NoError(t, m.clients[c].Close())
	m.closeWaiters(t, c)
	for o, g := range m.held {
		if o.client != c {
			continue
		}
		g.lose(relock.ErrClosed)
		for _, l := range g.levels {
			if l.hold != nil {
				m.past = append(m.past, l)
			}
		}
		delete(m.held, o)
	}
	m.clients[c] = m.newClient(t)
	delete(m.stale, c)
}

// lateCopyCommand delivers an earlier request again: a renewal, a re-entry or a
// release of this hold or of an older one.
func (m *machine) lateCopyCommand(t *machineT) {
	g, c := m.drawCopy(t)
	k := m.keys[g.owner.lock]
	want := int64(0)
	switch {
	case k.foreign:
		want = -1
	case k.grant == g:
		want = 1
	}
	args := append([]any{m.scripts["reentrant_"+c.script], 1, machineKey(g.owner.lock)}, c.args...)
	sent := time.Now()
	answer, err := m.conn.Do("EVAL", args...)
	require.NoError(t, err)
	got, _ := script.ReadGrant(answer)
	require.Equal(t, want, got, "late copy of %s of %v", c.script, g.owner)
	newest := c.script != "enter" || c.seq == g.seq
	if k.grant == g && c.lease > 0 && newest {
		m.lengthen(k, span{sent, time.Now()}, c.lease)
	}
}

func (m *machine) drawCopy(t *machineT) (*modelGrant, modelCopy) {
	recent := m.grants[max(0, len(m.grants)-6):]
	g := rapid.SampledFrom(recent).Draw(t.T, "grant")
	copies := g.copies
	if m.keys[g.owner.lock].free() {
		copies = copies[1:] // the acquire would take the key; of one that was answered there is no copy
	}
	return g, rapid.SampledFrom(copies).Draw(t.T, "copy")
}
