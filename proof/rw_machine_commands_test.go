package proof

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/relock-go/relock"
)

// acquireCommand takes one more level.
func (m *rwMachine) acquireCommand() {
	o, write := m.drawOwner(), rapid.Bool().Draw(m.T, "to write")
	h := m.held[o]
	if h != nil && len(h.levels) == rwMachineDepth {
		return
	}
	lease := rapid.SampledFrom(machineLeases).Draw(m.T, "lease")
	l := m.lock(o, relock.WithWatchdog(lease))
	if rapid.Bool().Draw(m.T, "fixed") {
		l = m.lock(o, relock.WithExpiry(lease))
	}
	acquire := l.TryRAcquire
	if write {
		acquire = l.TryAcquire
	}
	want := m.outcome(o, write)
	before := m.stored()
	sent := time.Now()
	handle, err := acquire(rwContext(o))
	at := span{sent, time.Now()}
	if want != nil {
		require.Equal(m, []error{want}, reasons(err), "%v, to write: %v: %v", o, write, err)
		require.Equal(m, ends(before), ends(m.stored()), "a call that was refused changes nothing")
		if h != nil && !h.there {
			h.lose()
		}
		m.learn(h)
		return
	}
	require.NoError(m, err, "%v, to write: %v", o, write)
	if h == nil {
		h = &rwModelHold{owner: o, there: true}
		m.held[o], m.all = h, append(m.all, h)
	}
	level := &rwModelLevel{hold: h, write: write, handle: handle}
	h.levels, m.levels = append(h.levels, level), append(m.levels, level)
	h.ends = h.ends.extended(at.add(m.clock.Offset() + lease))
	m.learn(h)
	if len(h.levels) > 1 {
		h.copies = append(h.copies,
			rwModelCopy{"rw_enter", h.seq, []any{h.id, h.count(false), h.count(true), h.seq, ms(lease)}})
	}
}

// learn records the id of a hold at the server, and the number of its newest
// change.
func (m *rwMachine) learn(h *rwModelHold) {
	if h == nil || !h.there {
		return
	}
	for _, e := range m.stored() {
		if strings.HasSuffix(e.owner, ":n:"+h.owner.name) && (h.id == "" && !m.isKnown(e.id) || h.id == e.id) {
			h.id = e.id
			require.GreaterOrEqual(m, e.seq, h.seq)
			h.seq = e.seq
			return
		}
	}
	require.Fail(m, "the server does not have it", "%v", h.owner)
}

func (m *rwMachine) isKnown(id string) bool {
	return slices.ContainsFunc(m.all, func(h *rwModelHold) bool { return h.id == id })
}

// unlockCommand leaves the newest level that reads, or that writes.
func (m *rwMachine) unlockCommand() {
	o, write := m.drawOwner(), rapid.Bool().Draw(m.T, "that writes")
	l := m.lock(o)
	unlock := l.RUnlock
	if write {
		unlock = l.Unlock
	}
	m.unlock(m.held[o].newest(write), func() error { return unlock(rwContext(o)) })
}

// unlockLevelCommand leaves any level, or one that was left before.
func (m *rwMachine) unlockLevelCommand() {
	if len(m.levels) == 0 {
		return
	}
	l := rapid.SampledFrom(m.levels).Draw(m.T, "hold")
	m.unlock(l, func() error { return l.handle.Unlock(context.Background()) })
}

func (m *rwMachine) unlock(l *rwModelLevel, call func() error) {
	want := []error{}
	switch {
	case l == nil || l.unlocked:
		want = []error{relock.ErrNotHeld}
	case l.hold.lost || !l.hold.there:
		want = []error{relock.ErrNotHeld, relock.ErrLockLost}
	}
	err := call()
	require.Equal(m, want, reasons(err), "%v", err)
	if l == nil || l.unlocked {
		return
	}
	h := l.hold
	h.drop(l)
	if !h.there {
		h.lose()
	}
	if len(h.levels) > 0 {
		m.learn(h)
		h.copies = append(h.copies, rwModelCopy{"rw_release", h.seq, []any{h.id, h.count(false), h.count(true), h.seq}})
		return
	}
	h.there = false
	delete(m.held, h.owner)
	h.copies = append(h.copies, rwModelCopy{"rw_release", h.seq + 1, []any{h.id, 0, 0, h.seq + 1}})
}

func (m *rwMachine) extendCommand() {
	if len(m.levels) == 0 {
		return
	}
	l := rapid.SampledFrom(m.levels).Draw(m.T, "hold")
	d := rapid.SampledFrom([]time.Duration{10 * time.Millisecond, 30 * time.Second, 400 * time.Second}).Draw(m.T, "by")
	want := []error{}
	switch {
	case l.over != nil:
		want = []error{l.over}
	case !l.hold.there:
		want = []error{relock.ErrLockLost}
	}
	sent := time.Now()
	err := l.handle.Extend(context.Background(), d)
	at := span{sent, time.Now()}
	require.Equal(m, want, reasons(err), "%v", err)
	switch {
	case len(want) == 0:
		l.hold.ends = l.hold.ends.extended(at.add(m.clock.Offset() + d))
	case !l.unlocked:
		l.hold.lose()
	}
}

// lateCopyCommand delivers a request once more. Only the newest one may have an
// effect: it extends the lease.
func (m *rwMachine) lateCopyCommand() {
	var holds []*rwModelHold
	for _, h := range m.all {
		if len(h.copies) > 0 {
			holds = append(holds, h)
		}
	}
	if len(holds) == 0 {
		return
	}
	h := rapid.SampledFrom(holds[max(0, len(holds)-5):]).Draw(m.T, "hold")
	c := rapid.SampledFrom(h.copies).Draw(m.T, "copy")
	if h.there && c.script == "rw_enter" && c.seq == h.seq {
		return
	}
	before := m.stored()
	key := machineKey(rwMachineKey)
	args := append([]any{m.scripts[c.script], 4, key, key + ":q", key + ":b", key + ":h"}, c.args...)
	_, err := m.conn.Do("EVAL", args...)
	require.NoError(m, err)
	require.Equal(m, before, m.stored(), "a late copy of %v has changed something", c)
}

// clockCommand moves the server's clock ahead, by a time that is clearly before
// or after each expiry.
func (m *rwMachine) clockCommand() {
	d := rapid.SampledFrom([]time.Duration{time.Second, 35 * time.Second, 90 * time.Second, 250 * time.Second}).Draw(m.T,
		"jump")
	for slices.ContainsFunc(m.all, func(h *rwModelHold) bool { return h.there && m.left(h, d).Abs() < machineGap }) {
		d += machineGap / 2
	}
	m.clock.Advance(m.t, d)
	for _, h := range m.all {
		h.there = h.there && m.left(h, 0) > 0
	}
}

// left is what a hold has left at the server, so long from now.
func (m *rwMachine) left(h *rwModelHold, d time.Duration) time.Duration {
	return wall(h.ends.last).Sub(m.clock.Now()) - d
}

func (m *rwMachine) deleteCommand() {
	m.do(m, "DEL", machineKey(rwMachineKey))
	for _, h := range m.all {
		h.there = false
	}
}

func (m *rwMachine) forgetCommand() {
	m.do(m, "SCRIPT", "FLUSH")
}
