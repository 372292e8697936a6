package proof

import (
	"context"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/relock-go/relock"
)

// TestRWStateMachine makes random calls of a read/write lock, by three owners
// on two clients, up to three levels deep, to read and to write. Meanwhile the
// server's clock jumps ahead, its scripts are flushed, late copies of requests
// arrive, and an operator deletes the key. The result of each call is
// predicted, and after each call the server and the holds are compared with the
// model.
func TestRWStateMachine(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	defer b.report(t)
	for range pick(8, 15) { // a run takes little time
		rapid.Check(t, b.runRW)
	}
}

const (
	rwMachineKey   = "rw"
	rwMachineDepth = 3
)

// rwMachine is one run.
type rwMachine struct {
	*bench
	*rapid.T
	begun   time.Time
	clients []*relock.Client
	held    map[rwMachineOwner]*rwModelHold
	all     []*rwModelHold
	levels  []*rwModelLevel
	slow    bool // it was given up
}

func (b *bench) runRW(r *rapid.T) {
	b.runs++
	m := &rwMachine{bench: b, T: r, begun: time.Now(), held: map[rwMachineOwner]*rwModelHold{}}
	b.do(r, "FLUSHALL")
	b.clock.Advance(b.t, -b.clock.Offset())
	for range machineClients {
		m.clients = append(m.clients, b.newClient(r))
	}
	defer func() {
		for _, c := range m.clients {
			_ = c.Close()
		}
	}()
	r.Repeat(map[string]func(*rapid.T){"step": m.step, "": m.check})
	m.T = r
	m.finish()
}

// isLate reports whether the run has taken so long that leases may expire or be
// renewed.
func (m *rwMachine) isLate() bool { return time.Since(m.begun) > machineTime }

// giveUp counts the run as too slow. Too many fail the test.
func (m *rwMachine) giveUp() {
	if !m.slow {
		m.slow = true
		m.late++
	}
}

func (m *rwMachine) step(r *rapid.T) {
	if m.isLate() {
		m.giveUp()
		return
	}
	m.T = r
	commands := map[string]func(){
		"acquire": m.acquireCommand, "unlock": m.unlockCommand, "unlock any hold": m.unlockLevelCommand,
		"extend":    m.extendCommand,
		"late copy": m.lateCopyCommand, "clock jumps": m.clockCommand, "operator deletes the key": m.deleteCommand,
		"scripts are forgotten": m.forgetCommand,
	}
	name := rapid.SampledFrom([]string{ // more often what stands more than once
		"acquire", "acquire", "unlock", "unlock any hold", "late copy", "late copy", "extend", "acquire", "unlock", "acquire",
		"clock jumps", "operator deletes the key", "scripts are forgotten",
	}).Draw(r, "command")
	commands[name]()
	m.steps[name]++
}

func (m *rwMachine) lock(o rwMachineOwner, opts ...relock.LockOption) *relock.RWLock {
	return relock.NewRWLock(rwMachineKey, m.clients[o.client], opts...)
}

func (m *rwMachine) drawOwner() rwMachineOwner {
	return rapid.SampledFrom(rwMachineOwners).Draw(m.T, "owner")
}

// others reports whether the server has holds of other owners, and one that
// writes.
func (m *rwMachine) others(o rwMachineOwner) (read, write bool) {
	for owner, h := range m.held {
		if owner != o && h.there {
			read, write = true, write || h.count(true) > 0
		}
	}
	return read, write
}

// outcome is what one more level must come to: nil when it is granted.
func (m *rwMachine) outcome(o rwMachineOwner, write bool) error {
	h := m.held[o]
	read, written := m.others(o)
	switch {
	case h != nil && (h.lost || !h.there):
		return relock.ErrLockLost
	case h != nil && write && h.count(true) == 0 && read:
		return relock.ErrUpgrade
	case h == nil && (written || write && read):
		return relock.ErrLockAcquiredByOthers
	}
	return nil
}

func rwContext(o rwMachineOwner) context.Context {
	return relock.ContextWithOwner(context.Background(), o.name)
}
