package lease_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/waitqueue"
)

// named is a plain lock for a message to grant.
type named string

func (n named) LockKey() string { return string(n) }
func (n named) HoldID() string  { return "" }

func (n named) Renew(time.Duration) script.Call {
	return script.Call{Script: script.Renew, Key: string(n), Args: []any{"value", 1000}}
}

func (n named) Release(lease.Levels, int, time.Duration) script.Call {
	return script.Call{Script: script.Release, Key: string(n), Args: []any{"value", 0, ""}}
}

// message grants the lock k by a message, for a waiter whose name was drawn at
// that time.
func message(t *testing.T, e *engine, drawn time.Time) (*lease.Hold, error) {
	t.Helper()
	var p lockspec.Problems
	s := lockspec.Resolve(lockspec.Options{}, lockspec.Options{}, lockspec.Plain, &p)
	return e.Grant(t.Context(), &lease.Grant{
		Key: "k", Protocol: named("p:{k}"), Sent: time.Now(), Settings: &s,
		Claim: &waitqueue.Claim{
			Call:  script.Call{Script: script.Claim, Key: "p:{k}", Args: []any{"w", 30000, "value", ""}},
			Drawn: drawn, Length: s.ClaimLease(), Settled: func() {},
		},
	})
}

// A suspend between the enqueue and the message ends the hold: the reservation
// may have ended.
func TestGrantByMessageOverASuspend(t *testing.T) {
	timed(t, func(t *testing.T, e *engine) {
		e.stopTicks() // only calls check
		h, err := message(t, e, time.Now())
		require.NoError(t, err)
		require.NoError(t, h.Unlock())
		drawn := time.Now()
		time.Sleep(time.Millisecond)
		e.suspend(time.Minute)
		time.Sleep(time.Second / 2)
		e.CheckSuspended(time.Now())
		time.Sleep(time.Millisecond)
		_, err = message(t, e, drawn)
		require.ErrorIs(t, err, lease.ErrLate)
		synctest.Wait()
		require.Equal(t, 2, e.calls(script.Release))
		_, err = message(t, e, time.Now())
		require.NoError(t, err)
	})
}
