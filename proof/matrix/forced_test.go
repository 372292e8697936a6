package matrix_test

import (
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/redistest"
)

// forcedKind is a kind of lock whose holds are ended by force, with the
// requests that have to do with it.
type forcedKind struct {
	lock                              string // of locktest.AllKinds
	end, renew, enter, release, claim *script.Script
}

var forcedKinds = []forcedKind{
	{"RedisLock", script.End, script.Renew, nil, script.Release, script.Claim},
	{
		"ReentrantLock", script.End, script.ReentrantRenew, script.ReentrantEnter, script.ReentrantRelease,
		script.Claim,
	},
	{"RWLock", script.RWEnd, script.RWRenew, script.RWEnter, script.RWRelease, script.RWClaim},
	{"RWLock, reading", script.RWEnd, script.RWRenew, script.RWEnter, script.RWRelease, script.RWClaim},
	{
		"Semaphore", script.SemaphoreEnd, script.SemaphoreRenew, nil, script.SemaphoreRelease,
		script.SemaphoreClaim,
	},
}

// After each fault in each request with which a hold is ended by force, or by
// which its client learns of that, ForceUnlock returns once the lock is handed
// off, or with a documented error. The holder's error is ErrForced. What comes
// late touches nothing of the next hold, and nothing is left.
func TestOneFaultInEachRequestOfAForcedEnd(t *testing.T) {
	t.Parallel()
	s := loadForced(t, locktest.NewServerWithScripts(t))
	var met atomic.Int64
	var cells []locktest.Subtest
	for _, op := range []struct {
		name string
		run  func(*forcedCell)
	}{
		{"look", (*forcedCell).look},
		{"end", (*forcedCell).end},
		{"end, of the client's own", (*forcedCell).endOwn},
		{"message", (*forcedCell).byMessage},
		{"release after the message", (*forcedCell).releaseAfterMessage},
		{"poll", (*forcedCell).byPoll},
		{"renewal", (*forcedCell).byRenewal},
		{"extend", (*forcedCell).byExtend},
		{"enter", (*forcedCell).byEnter},
		{"unlock", (*forcedCell).byUnlock},
		{"claim", (*forcedCell).byClaim},
	} {
		for _, f := range waiterFaults {
			for _, k := range forcedKinds {
				if op.name == "enter" && k.enter == nil {
					continue // it has no levels
				}
				cells = append(cells, locktest.Subtest{Name: op.name + "/" + f.name + "/" + k.lock, Run: func(t testing.TB) {
					c := &forcedCell{
						FaultBench: newBench(t, s, relock.WithCommandTimeout(waiterLimit)), forcedKind: k, fault: f,
					}
					// The holder has time to learn why its hold ended.
					locktest.Patient(c.Client)
					locktest.Patient(c.Other)
					op.run(c)
					c.goOn()
					select {
					case <-c.met:
						met.Add(1)
					default:
					}
				}})
			}
		}
	}
	cells = drawn(t, cells)
	locktest.RunTogether(t, cells)
	t.Logf("%d of %d faults", met.Load(), len(cells))
	require.Greater(t, int(met.Load()), len(cells)*3/4, "faults that happened")
}

// loadForced loads the scripts of a semaphore too.
func loadForced(t testing.TB, s *redistest.Server) *redistest.Server {
	for _, one := range []*script.Script{
		script.SemaphoreTry, script.SemaphoreEnqueue, script.SemaphoreClaim, script.SemaphoreCancel, script.SemaphorePoll,
		script.SemaphoreRenew, script.SemaphoreRelease,
	} {
		s.Do(t, "SCRIPT", "LOAD", one.Source)
	}
	return s
}
