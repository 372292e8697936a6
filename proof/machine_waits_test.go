package proof

import (
	"context"
	"slices"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/relock-go/relock"
)

// A waiter gets a free lock before the next command.

type machineWait struct {
	owner  modelOwner
	lease  time.Duration
	cancel context.CancelFunc
	begun  time.Time
}

type machineResult struct {
	wait *machineWait
	hold relock.Hold
	err  error
	at   time.Time
}

const (
	machinePoll = 2 * time.Millisecond
	// machinePatience limits the wait for a waiter's progress. After a restart
	// it pauses for up to a second.
	machinePatience = 10 * time.Second
)

// waitCommand starts to wait for a lock that is held by another owner.
func (m *machine) waitCommand(t *machineT) {
	o := rapid.SampledFrom(m.mayWait()).Draw(t.T, "owner")
	lease, option := drawLease(t)
	ctx, cancel := context.WithCancel(ownerContext(o))
	w := &machineWait{owner: o, lease: lease, cancel: cancel, begun: time.Now()}
	m.waits = append(m.waits, w)
	lock := m.lock(o, option, relock.WithBlock(), relock.WithPollInterval(machinePoll))
	m.waiters.Go(func() {
		hold, err := lock.Acquire(ctx)
		m.results <- machineResult{w, hold, err, time.Now()}
	})
}

// mayWait are the owners that a Lock would make wait.
func (m *machine) mayWait() []modelOwner {
	var owners []modelOwner
	for o := range everyOwner {
		if m.keys[o.lock].grant != nil && m.held[o] == nil && !m.wanted(o.lock) {
			owners = append(owners, o)
		}
	}
	return owners
}

func everyOwner(yield func(modelOwner) bool) {
	for client := range machineClients {
		for _, name := range machineOwners {
			for _, lock := range machineLocks {
				if !yield(modelOwner{client, name, lock}) {
					return
				}
			}
		}
	}
}

// wanted reports whether the lock has a waiter. There is at most one: which of
// two gets the lock is not deterministic, and a failure could not be repeated.
func (m *machine) wanted(lock string) bool {
	return slices.ContainsFunc(m.waits, func(w *machineWait) bool { return w.owner.lock == lock })
}

// result waits for the end of one wait.
func (m *machine) result(t *machineT) machineResult {
	select {
	case r := <-m.results:
		m.waits = slices.DeleteFunc(m.waits, func(w *machineWait) bool { return w == r.wait })
		r.wait.cancel()
		return r
	case <-time.After(machinePatience):
		t.hopeless("a waiter neither gets the lock nor gives up")
		t.FailNow()
		return machineResult{}
	}
}

// settle lets the waiters have what is free.
func (m *machine) settle(t *machineT) {
	for m.freeAndWanted() {
		m.gotIt(t, m.result(t))
	}
}

func (m *machine) freeAndWanted() bool {
	return slices.ContainsFunc(machineLocks, func(lock string) bool { return m.keys[lock].free() && m.wanted(lock) })
}

func (m *machine) gotIt(t *machineT, r machineResult) {
	o := r.wait.owner
	require.NoError(t, r.err, "%#v", o)
	require.True(t, m.keys[o.lock].free(), "%#v was granted what is not free", o)
	m.granted(t, o, r.hold, span{r.wait.begun, r.at}, r.wait.lease)
}

// stopWaitingCommand ends the context of a call that waits.
func (m *machine) stopWaitingCommand(t *machineT) {
	rapid.SampledFrom(m.waits).Draw(t.T, "wait").cancel()
	m.gaveUp(t, m.result(t))
}

func (m *machine) gaveUp(t *machineT, r machineResult) {
	require.ErrorIs(t, r.err, context.Canceled)
	require.Subset(t, []error{relock.ErrLockAcquiredByOthers}, reasons(r.err))
	require.Nil(t, r.hold)
}

func (m *machine) cancelAll(t *machineT) {
	for len(m.waits) > 0 {
		m.waits[0].cancel()
		m.gaveUp(t, m.result(t))
	}
}

// unlockAndStopWaitingCommand lets the cancellation of a waiter race with the
// release of its lock. Afterwards the waiter holds the lock, or it is soon
// free.
func (m *machine) unlockAndStopWaitingCommand(t *machineT) {
	w := rapid.SampledFrom(m.quickWaits()).Draw(t.T, "wait")
	k := m.keys[w.owner.lock]
	o := k.grant.owner
	pause := time.Duration(rapid.IntRange(0, 3000).Draw(t.T, "us")) * time.Microsecond
	m.waiters.Go(func() {
		time.Sleep(pause)
		w.cancel()
	})
	m.unlock(t, o, k.grant.newest(), func() error { return m.lock(o).Unlock(ownerContext(o)) })
	r := m.result(t)
	if r.err == nil {
		m.gotIt(t, r)
		return
	}
	m.gaveUp(t, r)
	// This ensures that the waiter's requests are executed. The server may
	// spend one turn of its event loop on accepting a connection, and execute
	// the test's command first in the next turn.
	for range 3 {
		m.do(t, "PING")
	}
	for end := time.Now().Add(machinePatience); m.do(t, "EXISTS",
		machineKey(o.lock)) != int64(0); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.hopeless("a waiter that gave up has left a key")
			t.FailNow()
		}
	}
}

// quickWaits are those for a lock that its holder can release immediately.
func (m *machine) quickWaits() []*machineWait {
	var quick []*machineWait
	for _, w := range m.waits {
		k := m.keys[w.owner.lock]
		if k.grant != nil && k.grant.dead == nil && k.count == 1 {
			quick = append(quick, w)
		}
	}
	return quick
}

// refuseWaiters collects the calls that find the key in use by something else.
func (m *machine) refuseWaiters(t *machineT, lock string) {
	for m.wanted(lock) {
		r := m.result(t)
		require.Equal(t, lock, r.wait.owner.lock, "%v: %v", r.wait.owner, r.err)
		require.Equal(t, []error{relock.ErrKeyConflict}, reasons(r.err), "%v", r.err)
	}
}

// closeWaiters collects the calls of a client that was closed.
func (m *machine) closeWaiters(t *machineT, client int) {
	for slices.ContainsFunc(m.waits, func(w *machineWait) bool { return w.owner.client == client }) {
		r := m.result(t)
		require.Equal(t, client, r.wait.owner.client, "%v: %v", r.wait.owner, r.err)
		require.Equal(t, []error{relock.ErrClosed}, reasons(r.err), "%v", r.err)
	}
}
