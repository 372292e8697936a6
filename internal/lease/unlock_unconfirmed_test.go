package lease_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/test/faults"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/testkit"
)

// An Unlock that was executed, whose answer was lost, and whose lease has ended
// since, is neither a loss nor confirmed.
func TestUnlockWithoutAnswerAtTheEnd(t *testing.T) {
	s := locktest.NewServerWithScripts(t)
	p := faults.Start(t, s.Network, s.Address)
	c, err := relock.NewClient(p.Network, p.Address, "")
	require.NoError(t, err)
	defer c.Close() //nolint:errcheck // nothing is held
	const lease = 900 * time.Millisecond
	h := locktest.Take(t, relock.NewRedisLock("executed", c, relock.WithExpiry(lease)).Acquire)
	p.On(faults.Script(script.Release.SHA), 1, faults.DropAnswer)
	time.Sleep(time.Until(h.ValidUntil()) - lease/9) // almost to its end
	err = h.Unlock(t.Context())
	require.ErrorIs(t, err, relock.ErrUnconfirmed)
	require.NotErrorIs(t, err, relock.ErrLockLost)
	require.Zero(t, s.Do(t, "EXISTS", "relock:{executed}"), "it was executed")
}

// The same is true of a Detach.
func TestDetachWithoutAnswerAtTheEnd(t *testing.T) {
	s := locktest.NewServerWithScripts(t)
	p := faults.Start(t, s.Network, s.Address)
	c, err := relock.NewClient(p.Network, p.Address, "")
	require.NoError(t, err)
	defer c.Close() //nolint:errcheck // nothing is held
	h := locktest.Take(t, relock.NewRedisLock("executed", c).Acquire)
	transfers, gone := faults.Script(script.Transfer.SHA), make(chan struct{})
	executed := p.On(transfers, 1, faults.CutAfter)
	p.On(transfers, 2, faults.DelayRequestUntil(gone))
	result := testkit.Async(t, func() error {
		_, err := c.Detach(t.Context(), h, 10*time.Millisecond)
		return err
	})
	_, ok := testkit.Await(executed, testkit.Patience)
	require.True(t, ok)
	testkit.Eventually(t, testkit.Patience, func() bool {
		return s.Do(t, "EXISTS", "relock:{executed}") == int64(0)
	}, "the detached hold has ended")
	close(gone)
	err = testkit.ResultWithin(t, result, testkit.Patience)
	require.Equal(t, 2, p.Count(transfers))
	require.ErrorIs(t, err, relock.ErrUnconfirmed)
	require.NotErrorIs(t, err, relock.ErrLockLost)
}

// An Extend without an answer is no loss. The hold is valid as before, though
// the server may keep the lock for longer.
func TestExtendWithoutAnswer(t *testing.T) {
	s := locktest.NewServerWithScripts(t)
	p := faults.Start(t, s.Network, s.Address)
	c, err := relock.NewClient(p.Network, p.Address, "", relock.WithCommandTimeout(200*time.Millisecond))
	require.NoError(t, err)
	defer c.Close() //nolint:errcheck // nothing is held
	const lease = time.Minute
	for name, action := range map[string]faults.Action{"not executed": faults.DropRequest, "executed": faults.DropAnswer} {
		h := locktest.Take(t, relock.NewRedisLock(name, c, relock.WithExpiry(lease)).Acquire)
		until := h.ValidUntil()
		p.On(faults.Script(script.Renew.SHA), 1, action)
		err := h.Extend(t.Context(), time.Hour)
		require.True(t, relock.IsRetryableErr(err), "%v", err)
		require.NotErrorIs(t, err, relock.ErrLockLost)
		require.NotErrorIs(t, err, relock.ErrNotHeld)
		require.NoError(t, h.Err())
		require.Equal(t, until, h.ValidUntil())
		left := s.Do(t, "PTTL", "relock:{"+name+"}").(int64)
		require.Equal(t, name == "executed", left > lease.Milliseconds(), name)
		require.NoError(t, h.Unlock(t.Context()))
		require.Zero(t, s.Do(t, "EXISTS", "relock:{"+name+"}"))
	}
}
