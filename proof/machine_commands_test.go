package proof

import (
	"context"
	"slices"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/relock-go/relock"
)

// The calls of holders. What must come of each is known before it is made.

func (m *machine) drawOwner(t *machineT) modelOwner {
	return modelOwner{
		client: rapid.IntRange(0, machineClients-1).Draw(t.T, "client"),
		name:   rapid.SampledFrom(machineOwners).Draw(t.T, "owner"),
		lock:   rapid.SampledFrom(machineLocks).Draw(t.T, "lock"),
	}
}

func drawLease(t *machineT) (time.Duration, relock.LockOption) {
	lease := rapid.SampledFrom(machineLeases).Draw(t.T, "lease")
	if rapid.Bool().Draw(t.T, "watched") {
		return lease, relock.WithWatchdog(lease)
	}
	return lease, relock.WithExpiry(lease)
}

// levels are all that gave a Hold, unlocked or not.
func (m *machine) levels() []*modelLevel {
	all := slices.Clone(m.past)
	for _, g := range m.grants {
		for _, l := range g.levels {
			if l.hold != nil && !slices.Contains(m.past, l) {
				all = append(all, l)
			}
		}
	}
	return all
}

func (m *machine) drawLevel(t *machineT) *modelLevel {
	return rapid.SampledFrom(m.levels()).Draw(t.T, "hold")
}

// tryAcquireCommand takes a lock or nests a hold.
func (m *machine) tryAcquireCommand(t *machineT) {
	o := m.drawOwner(t)
	m.try(ownerContext(o), t, o)
}

// tryAcquireAgainCommand nests a hold, or finds that it cannot.
func (m *machine) tryAcquireAgainCommand(t *machineT) {
	o := rapid.SampledFrom(m.holders()).Draw(t.T, "holder")
	m.try(ownerContext(o), t, o)
}

// tryAcquireInsideCommand calls with the context of a hold. Its newest hold
// that is not unlocked takes precedence over the owner in it.
func (m *machine) tryAcquireInsideCommand(t *machineT) {
	outer := m.drawLevel(t)
	o := outer.grant.owner
	o.name = rapid.SampledFrom(machineOwners).Draw(t.T, "owner")
	ctx := relock.ContextWithOwner(context.WithoutCancel(outer.hold.Context()), o.name)
	for l := outer; l != nil; l = l.outer {
		if !l.unlocked && m.held[l.grant.owner] == l.grant {
			o = l.grant.owner
			break
		}
	}
	if l := m.try(ctx, t, o); l != nil {
		l.outer = outer
	}
}

func (m *machine) holders() []modelOwner {
	var owners []modelOwner
	for _, g := range m.grants {
		if m.held[g.owner] == g {
			owners = append(owners, g.owner)
		}
	}
	return owners
}

// try makes one attempt and returns the new hold, or nil if there must be none.
func (m *machine) try(ctx context.Context, t *machineT, o modelOwner) *modelLevel {
	lease, option := drawLease(t)
	want := lockOutcome(m.keys[o.lock], m.held[o])
	lock := m.lock(o, option)
	var hold relock.Hold
	var err error
	sent := time.Now()
	if rapid.Bool().Draw(t.T, "with a hold") {
		hold, err = lock.TryAcquire(ctx)
	} else {
		err = lock.TryLock(ctx)
	}
	at := span{sent, time.Now()}
	if want != nil {
		m.refused(t, o, hold, err, want)
		return nil
	}
	require.NoError(t, err, "%v", o)
	return m.granted(t, o, hold, at, lease)
}

func (m *machine) refused(t *machineT, o modelOwner, hold relock.Hold, err, want error) {
	require.Equal(t, []error{want}, reasons(err), "%#v: %v", o, err)
	require.Nil(t, hold)
	g := m.held[o]
	if g != nil && g.dead != nil {
		return // nothing was sent
	}
	delete(m.stale, o.client)
	if g != nil {
		g.lose(relock.ErrLockLost)
	}
}

// granted takes down what an owner got, between the sending and the answer.
func (m *machine) granted(t *machineT, o modelOwner, hold relock.Hold, at span, lease time.Duration) *modelLevel {
	delete(m.stale, o.client)
	k, g := m.keys[o.lock], m.held[o]
	if g == nil {
		g = &modelGrant{owner: o}
		m.held[o], m.grants = g, append(m.grants, g)
		*k = modelKey{grant: g}
	}
	k.count++
	l := &modelLevel{grant: g, hold: hold}
	g.levels = append(g.levels, l)
	m.lengthen(k, at, lease)
	m.extended(g, at, lease)
	m.checkKey(t, o.lock, k)
	if k.count > 1 {
		g.copies = append(g.copies,
			modelCopy{script: "enter", seq: g.seq, lease: lease, args: []any{g.field, g.id, k.count, g.seq, ms(lease)}})
	}
	return l
}

// lengthen is what a request that sets an expiry does to the key.
func (m *machine) lengthen(k *modelKey, at span, lease time.Duration) {
	offset := m.clock.Offset()
	// If the expiry is later already, the script sets the remaining time again.
	// The expiry moves by the time that this takes and by rounding.
	k.ends.last = k.ends.last.Add(at.last.Sub(at.first) + time.Millisecond)
	k.ends = k.ends.extended(at.add(offset + lease))
}

// extended applies a granted request to the holder.
func (m *machine) extended(g *modelGrant, at span, lease time.Duration) {
	until := at.add(lease - modelMargin(lease))
	if until.first.After(g.until.first) {
		g.skew = m.clock.Offset()
	}
	g.until = g.until.extended(until)
}

// unlockCommand leaves the newest level.
func (m *machine) unlockCommand(t *machineT) {
	o := m.drawOwner(t)
	if owners := m.holders(); len(owners) > 0 && rapid.IntRange(0, 4).Draw(t.T, "an owner that holds") > 0 {
		o = rapid.SampledFrom(owners).Draw(t.T, "holder")
	}
	m.unlock(t, o, m.held[o].newest(), func() error { return m.lock(o).Unlock(ownerContext(o)) })
}

// unlockLevelCommand leaves a level of any age, or one that was left before.
func (m *machine) unlockLevelCommand(t *machineT) {
	l := m.drawLevel(t)
	m.unlock(t, l.grant.owner, l, func() error { return l.hold.Unlock(context.Background()) })
}

func (m *machine) unlock(t *machineT, o modelOwner, l *modelLevel, call func() error) {
	k := m.keys[o.lock]
	want := unlockOutcome(k, l)
	err := call()
	got := reasons(err)
	if len(want) == 2 && l.grant.dead == nil && len(l.grant.levels) == 1 && m.stale[o.client] && err == nil {
		want = []error{} // an earlier copy on the cut connection may have been executed
	}
	require.Equal(t, want, got, "unlock by %v: %v", o, err)
	if len(want) == 0 {
		require.NoError(t, err)
	}
	if l == nil || l.unlocked {
		return
	}
	m.left(t, l, k)
}

// left takes down that a level was unlocked.
func (m *machine) left(t *machineT, l *modelLevel, k *modelKey) {
	g := l.grant
	wasLive := g.dead == nil
	g.drop(l)
	if l.hold != nil && !slices.Contains(m.past, l) {
		m.past = append(m.past, l)
	}
	if len(g.levels) == 0 && m.held[g.owner] == g {
		delete(m.held, g.owner)
	}
	if !wasLive {
		return
	}
	delete(m.stale, g.owner.client)
	if k.grant != g {
		g.lose(relock.ErrLockLost)
		return
	}
	if k.count--; k.count == 0 {
		*k = modelKey{}
		g.copies = append(g.copies, modelCopy{script: "release", args: []any{g.field, g.id, 0, g.seq + 1, 0}})
		return
	}
	m.checkKey(t, g.owner.lock, k) // so that the number of the change is known
	g.copies = append(g.copies, modelCopy{script: "release", seq: g.seq, args: []any{g.field, g.id, k.count, g.seq, 0}})
}

// extendCommand lengthens the lease, or finds out that it is lost.
func (m *machine) extendCommand(t *machineT) {
	l := m.drawLevel(t)
	d := rapid.SampledFrom([]time.Duration{10 * time.Millisecond, 30 * time.Second, 200 * time.Second, 400 * time.Second}).
		Draw(t.T, "by")
	k, g := m.keys[l.grant.owner.lock], l.grant
	want := []error{}
	switch {
	case l.over != nil:
		want = []error{l.over}
	case k.grant != g:
		want = []error{relock.ErrLockLost}
	}
	sent := time.Now()
	err := l.hold.Extend(context.Background(), d)
	at := span{sent, time.Now()}
	require.Equal(t, want, reasons(err), "%v", err)
	if l.over != nil {
		return
	}
	delete(m.stale, g.owner.client)
	if len(want) > 0 {
		g.lose(relock.ErrLockLost)
		return
	}
	require.NoError(t, err)
	m.lengthen(k, at, d)
	m.extended(g, at, d)
}

// mistakeCommand makes calls with times that Redis cannot store. They change
// nothing.
func (m *machine) mistakeCommand(t *machineT) {
	bad := rapid.SampledFrom([]time.Duration{
		-time.Second, 0, time.Millisecond, 9 * time.Millisecond, 10*time.Millisecond + 1, 1 << 62,
	}).Draw(t.T, "time")
	o := m.drawOwner(t)
	invalid := []error{relock.ErrInvalid}
	require.Equal(t, invalid, reasons(m.lock(o, relock.WithExpiry(bad)).TryLock(ownerContext(o))))
	require.Equal(t, invalid, reasons(m.lock(o, relock.WithWatchdog(bad)).Lock(ownerContext(o))))
	require.Equal(t, invalid,
		reasons(m.lock(o, relock.WithExpiry(time.Minute), relock.WithWatchdog(time.Minute)).Validate()))
	if len(m.levels()) > 0 {
		require.Equal(t, invalid, reasons(m.drawLevel(t).hold.Extend(context.Background(), bad)))
	}
}

// endedContextCommand calls with a context that is cancelled, or that carries
// an invalid owner. Nothing is sent.
func (m *machine) endedContextCommand(t *machineT) {
	o := m.drawOwner(t)
	ctx, cancel := context.WithCancel(ownerContext(o))
	cancel()
	hold, err := m.lock(o, relock.WithBlock()).Acquire(ctx)
	require.ErrorIs(t, err, context.Canceled)
	require.Empty(t, reasons(err))
	require.Nil(t, hold)
	err = m.lock(o).TryLock(relock.ContextWithOwner(context.Background(), ""))
	require.Equal(t, []error{relock.ErrInvalid}, reasons(err))
}
