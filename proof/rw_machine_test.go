package proof

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/relock-go/relock"
)

// TestRWStateMachine makes random calls of a read/write lock, by three owners on two clients, up to three levels deep, to read and to write,
// while the server's clock jumps ahead, its scripts are forgotten, late copies of requests come in, and an operator deletes the key. What
// each call must come to is known before it is made; after each, what the server has and what the holds say are compared with the model.
func TestRWStateMachine(t *testing.T) {
	setRapid(t, "rapid.nofailfile", "true")
	setRapid(t, "rapid.steps", "60")
	setRapid(t, "rapid.checks", pick("2000", "150"))
	b := newBench(t)
	defer b.report(t)
	rapid.Check(t, b.runRW)
}

const (
	rwMachineKey   = "rw"
	rwMachineDepth = 3
)

// rwMachineOwner is who may hold the lock.
type rwMachineOwner struct {
	client int
	name   string
}

var rwMachineOwners = []rwMachineOwner{{0, "ann"}, {0, "bob"}, {1, "ann"}}

// rwModelHold is what an owner has, from its first level to its last.
type rwModelHold struct {
	owner  rwMachineOwner
	levels []*rwModelLevel // not yet unlocked, oldest first
	there  bool            // the server has it
	ends   span            // there
	lost   bool            // as its client knows
	id     string
	seq    int64
	copies []rwModelCopy
}

type rwModelLevel struct {
	hold     *rwModelHold
	write    bool
	handle   relock.Hold
	over     error // nil while it is held
	unlocked bool
}

// rwModelCopy is a request of the past.
type rwModelCopy struct {
	script string
	seq    int64
	args   []any
}

func (h *rwModelHold) count(write bool) (n int) {
	for _, l := range h.levels {
		if l.write == write {
			n++
		}
	}
	return n
}

// lose makes all levels know that they are over.
func (h *rwModelHold) lose() {
	h.lost = true
	for _, l := range h.levels {
		l.over = relock.ErrLockLost
	}
}

// drop takes a level off.
func (h *rwModelHold) drop(l *rwModelLevel) {
	l.unlocked = true
	if l.over == nil {
		l.over = relock.ErrNotHeld
	}
	h.levels = slices.DeleteFunc(h.levels, func(other *rwModelLevel) bool { return other == l })
}

func (h *rwModelHold) newest(write bool) *rwModelLevel {
	if h == nil {
		return nil
	}
	for _, l := range slices.Backward(h.levels) {
		if l.write == write {
			return l
		}
	}
	return nil
}

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

// isLate says that the run has taken so long that leases may end or be renewed by themselves.
func (m *rwMachine) isLate() bool { return time.Since(m.begun) > machineTime }

// giveUp counts the run as one that was too slow.
func (m *rwMachine) giveUp() {
	if !m.slow {
		m.slow = true
		m.late++
	}
}

func (m *rwMachine) step(r *rapid.T) {
	if m.isLate() {
		m.giveUp()
		r.Skip("the machine was held up for too long")
	}
	m.T = r
	commands := map[string]func(){
		"acquire": m.acquireCommand, "unlock": m.unlockCommand, "unlock a level": m.unlockLevelCommand, "extend": m.extendCommand,
		"late copy": m.lateCopyCommand, "clock jumps": m.clockCommand, "operator deletes the key": m.deleteCommand,
		"scripts are forgotten": m.forgetCommand,
	}
	name := rapid.SampledFrom([]string{ // more often what stands more than once
		"acquire", "acquire", "unlock", "unlock a level", "late copy", "late copy", "extend", "acquire", "unlock", "acquire",
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

// others says whether the server has holds of others, and one that writes.
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
		h.copies = append(h.copies, rwModelCopy{"rw_enter", h.seq, []any{h.id, h.count(false), h.count(true), h.seq, ms(lease)}})
	}
}

// learn takes down what the server calls a hold, and the number of its newest change.
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
	l := rapid.SampledFrom(m.levels).Draw(m.T, "level")
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
	l := rapid.SampledFrom(m.levels).Draw(m.T, "level")
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

// lateCopyCommand delivers a request once more. Only the newest one may do something: it lengthens the lease.
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

// clockCommand makes the server's clock go ahead, so that it is certain on which side of it each expiry is.
func (m *rwMachine) clockCommand() {
	d := rapid.SampledFrom([]time.Duration{time.Second, 35 * time.Second, 90 * time.Second, 250 * time.Second}).Draw(m.T, "jump")
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

func rwContext(o rwMachineOwner) context.Context {
	return relock.ContextWithOwner(context.Background(), o.name)
}

// rwStoredHold is one hold that the server has, and that has not ended.
type rwStoredHold struct {
	id, kind, counts, owner string
	until, seq              int64
}

const rwMachineSnapshot = `
local left = redis.call('PTTL', KEYS[1])
local t = redis.call('TIME')
return {t[1] * 1000000 + t[2], redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', '(inf', 'WITHSCORES'), redis.call('HGETALL', KEYS[2]), left}`

// stored is what the server has, by hold.
func (m *rwMachine) stored() (all []rwStoredHold) {
	key := machineKey(rwMachineKey)
	parts, err := redis.Values(m.conn.Do("EVAL", rwMachineSnapshot, 2, key, key+":h"))
	require.NoError(m, err)
	now, _ := redis.Int64(parts[0], nil)
	scores, err := redis.Int64Map(parts[1], nil)
	require.NoError(m, err)
	notes, err := redis.StringMap(parts[2], nil)
	require.NoError(m, err)
	left, _ := redis.Int64(parts[3], nil)
	require.NotEqual(m, int64(-1), left, "it would stay for ever")
	for entry, until := range scores {
		kind, id, _ := strings.Cut(entry, ":")
		if strings.HasPrefix(entry, "#") || until <= now {
			continue
		}
		require.GreaterOrEqual(m, left*1000, until-now, "the lock ends before a hold")
		counts, rest, _ := strings.Cut(notes[id], "|")
		all = append(all, rwStoredHold{id, kind, counts, rest[strings.LastIndexByte(rest, '|')+1:], until, -scores["#"+id]})
	}
	slices.SortFunc(all, func(a, b rwStoredHold) int { return strings.Compare(a.id, b.id) })
	return all
}

// ends leaves out the numbers of changes: one that was refused has a number too.
func ends(all []rwStoredHold) []rwStoredHold {
	all = slices.Clone(all)
	for i := range all {
		all[i].seq = 0
	}
	return all
}

// check compares everything with the model.
func (m *rwMachine) check(r *rapid.T) {
	m.T = r
	if m.isLate() {
		return
	}
	stored := map[string]rwStoredHold{}
	for _, e := range m.stored() {
		stored[e.id] = e
	}
	writes := 0
	for _, h := range m.all {
		if !h.there {
			continue
		}
		e, ok := stored[h.id]
		require.True(m, ok, "the server does not have the hold of %v: %v", h.owner, stored)
		delete(stored, h.id)
		kind := "r"
		if h.count(true) > 0 {
			kind = "w"
			writes++
		}
		require.Equal(m, kind, e.kind, "%v", h.owner)
		require.Equal(m, strconv.Itoa(h.count(false))+":"+strconv.Itoa(h.count(true)), e.counts, "%v", h.owner)
		until := time.UnixMicro(e.until)
		require.False(m, until.Before(wall(h.ends.first).Add(-2*time.Millisecond)) || until.After(wall(h.ends.last).Add(2*time.Millisecond)),
			"%v ends at %v, not between %v and %v", h.owner, until, h.ends.first, h.ends.last)
	}
	require.Empty(m, stored, "nobody holds these")
	require.True(m, writes == 0 || m.there() == 1, "one writes beside another")
	for _, l := range m.levels {
		m.checkLevel(l)
	}
}

func (m *rwMachine) there() (n int) {
	for _, h := range m.all {
		if h.there {
			n++
		}
	}
	return n
}

func (m *rwMachine) checkLevel(l *rwModelLevel) {
	if l.over == nil {
		require.NoError(m, l.handle.Err())
		require.NoError(m, l.handle.Context().Err())
		return
	}
	require.Equal(m, []error{l.over}, reasons(l.handle.Err()))
	require.Equal(m, []error{l.over}, reasons(context.Cause(l.handle.Context())))
}

// finish gives everything back, and looks that nothing is left.
func (m *rwMachine) finish() {
	if m.isLate() {
		return
	}
	for _, h := range m.all {
		for len(h.levels) > 0 {
			l := h.levels[len(h.levels)-1]
			m.unlock(l, func() error { return l.handle.Unlock(context.Background()) })
		}
	}
	m.check(m.T)
	m.clock.Advance(m.t, time.Hour)
	require.Empty(m, m.do(m, "KEYS", "*"), "keys are left")
}
