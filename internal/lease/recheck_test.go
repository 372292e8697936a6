package lease_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/redis/driver"
	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/testkit"
)

// After a failover, each hold that the new master lacks ends as soon as the
// client knows of it, however long its lease is, and whether it is renewed or
// not. A hold that is there goes on, and its lease stays as it was.
func TestHoldsAskTheNewMaster(t *testing.T) {
	t.Parallel()
	r := locktest.NewReplicated(t)
	p := locktest.NewTopology(true, r.Master)
	c := p.Client(t)
	take := func(state string, opts ...relock.LockOption) map[string]relock.Hold {
		holds := map[string]relock.Hold{}
		for kind, newLock := range locktest.AllKinds {
			for name, length := range map[string]relock.LockOption{
				"fixed": relock.WithExpiry(time.Hour), "watched": relock.WithWatchdog(time.Hour),
			} {
				key := state + " " + kind + " " + name
				if kind == "MultiLock" { // of which all have the same second key
					c = p.Client(t, relock.WithKeyPrefix(key+":"))
				}
				holds[key] = locktest.Take(t, newLock(key, c, append(opts, length)...).Acquire)
			}
		}
		return holds
	}
	kept := take("kept", locktest.OneReplica)
	until := map[string]time.Time{}
	for name, h := range kept {
		until[name] = h.ValidUntil()
	}
	r.Disconnect()
	lost := take("lost")
	p.SetMasters(r.Replica)
	for name, h := range lost {
		require.ErrorIs(t, testkit.EndedWithin(t, h.Context(), testkit.Patience), relock.ErrLockLost, name)
	}
	for name, h := range kept {
		require.NoError(t, h.Err(), name)
		require.True(t, !h.ValidUntil().Before(until[name]), name)
		require.NoError(t, h.Unlock(t.Context()), name)
	}
}

// A lease that is not renewed asks once for each change of masters, and for a
// moment only, so it stays as it is. It asks on until it has an answer.
func TestFixedLeaseAsks(t *testing.T) {
	for name, take := range map[string]func(*testing.T, *engine) *lease.Hold{
		"fixed": func(t *testing.T, e *engine) *lease.Hold {
			return e.take(t, lockspec.Plain, "k", fixed(time.Hour))
		},
		"no longer renewed": func(t *testing.T, e *engine) *lease.Hold {
			h := e.take(t, lockspec.Plain, "k", watched(time.Hour))
			h.StopRenewing()
			return h
		},
	} {
		t.Run(name, func(t *testing.T) {
			timed(t, func(t *testing.T, e *engine) {
				failures := 3
				e.answer = func(r driver.Request) (time.Duration, error) {
					if isCall(r, script.Renew) && failures > 0 {
						failures--
						return 0, errors.New("broken")
					}
					return 0, nil
				}
				h := take(t, e)
				until := h.ValidUntil()
				e.NodesChanged(nil)
				time.Sleep(time.Millisecond)
				require.Equal(t, 1, e.calls(script.Renew))
				time.Sleep(5 * time.Second) // before it looks for a mark
				require.Equal(t, 4, e.calls(script.Renew), "three without an answer")
				last := e.last(script.Renew)
				require.EqualValues(t, 10, last.List()[4])
				require.Equal(t, until, h.ValidUntil())
				require.Zero(t, e.Counts.Renewals.Load())
				e.NodesChanged(nil)
				time.Sleep(5 * time.Second)
				require.Equal(t, 5, e.calls(script.Renew))
				require.NoError(t, h.Unlock())
			})
		})
	}
}

// A check needs no replica: a new master lacks them at first. It is answered as
// any other, and ends.
func TestCheckWithoutReplicasIsAnswered(t *testing.T) {
	timed(t, func(t *testing.T, e *engine) {
		waits := func(s *lockspec.Spec) { s.Replicas, s.ReplicaTimeout = 1, time.Second }
		h := e.take(t, lockspec.Plain, "k", fixed(time.Hour), waits)
		e.answer = func(driver.Request) (time.Duration, error) { return 0, errs.ErrReplicas }
		e.NodesChanged(nil)
		time.Sleep(5 * time.Second)
		require.Equal(t, 1, e.calls(script.Renew))
		require.NoError(t, h.Err())
	})
}

// The check of a long lease shortens no limit of others. A new master may need
// a while for its first answers, and all jobs of a batch have the shortest
// limit.
func TestCheckShortensNoLimit(t *testing.T) {
	timed(t, func(t *testing.T, e *engine) {
		e.answer = func(r driver.Request) (time.Duration, error) {
			if isCall(r, script.Renew) {
				return 5 * time.Second, nil
			}
			return 0, nil
		}
		e.take(t, lockspec.Plain, "fixed", fixed(time.Minute))
		e.take(t, lockspec.Plain, "watched", watched(time.Minute))
		e.NodesChanged(nil)
		time.Sleep(8 * time.Second)
		require.Equal(t, 2, e.calls(script.Renew))
		require.Zero(t, e.Counts.RenewalErrors.Load())
	})
}

// A grant that was requested before masters changed, and comes later, asks too.
// One that was requested later does not.
func TestGrantOfAnOldMasterAsks(t *testing.T) {
	for name, length := range map[string]setting{"fixed": fixed(time.Hour), "watched": watched(time.Hour)} {
		t.Run(name, func(t *testing.T) {
			timed(t, func(t *testing.T, e *engine) {
				e.answer = func(r driver.Request) (time.Duration, error) {
					if r.Cmd == "SET" {
						return time.Second, nil
					}
					return 0, nil
				}
				change := time.AfterFunc(500*time.Millisecond, func() { e.NodesChanged(nil) })
				defer change.Stop()
				e.take(t, lockspec.Plain, "before", length)
				time.Sleep(time.Second)
				require.Equal(t, 1, e.calls(script.Renew))
				e.take(t, lockspec.Plain, "after", length)
				time.Sleep(time.Second)
				require.Equal(t, 1, e.calls(script.Renew))
			})
		})
	}
}
