package relock_test

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/testkit"
	"github.com/relock-go/relock/relocktest"
)

// The end of ctx ends Run without an error, whatever it does meanwhile, and in
// no time.
func TestLeaderEndsWithItsContext(t *testing.T) {
	for name, setUp := range map[string]func(l *relocktest.Locker) (fn func(context.Context) error){
		"leads": func(*relocktest.Locker) func(context.Context) error { return leads },
		"leads, and then fails": func(*relocktest.Locker) func(context.Context) error {
			return func(ctx context.Context) error { return errors.Join(leads(ctx), locktest.ErrMine) }
		},
		"waits": func(l *relocktest.Locker) func(context.Context) error {
			l.Busy("k")
			return leads
		},
		"pauses": func(*relocktest.Locker) func(context.Context) error {
			return func(context.Context) error { return locktest.ErrMine }
		},
	} {
		t.Run(name, func(t *testing.T) {
			testkit.Bubble(t, func(t *testing.T) {
				l := relocktest.NewLocker()
				stop := runLeader(t, relock.NewLeader(l, "k"), setUp(l))
				began := time.Now()
				stop()
				require.Zero(t, time.Since(began))
				require.Zero(t, l.Waiting("k"))
			})
		})
	}
}

// A nil error of the function ends Run, unless the leadership was lost.
func TestLeaderEndsWithItsFunction(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		l, terms := relocktest.NewLocker(), 0
		require.NoError(t, relock.NewLeader(l, "k").Run(t.Context(), func(ctx context.Context) error {
			if terms++; terms == 1 {
				require.True(t, l.Lose("k"))
				<-ctx.Done()
			}
			return nil
		}))
		require.Equal(t, 2, terms)
		require.NoError(t, relock.FromLocker(l, "k").TryLock(t.Context()))
	})
}

// Mistakes, a client that is closed, and a context under a lost hold end Run
// with an error, since no campaign can succeed. The function is not run.
func TestLeaderEndsWithAnError(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		l := relocktest.NewLocker()
		lost, err := l.Lock(ctx, "k")
		require.NoError(t, err)
		require.True(t, l.Lose("k"))
		for name, c := range map[string]struct {
			ctx    context.Context
			locker relock.Locker
			key    string
			fn     func(context.Context) error
			want   error
		}{
			"no context":     {nil, l, "k", unreached(t), relock.ErrInvalid},
			"no function":    {ctx, l, "k", nil, relock.ErrInvalid},
			"no locker":      {ctx, nil, "k", unreached(t), relock.ErrInvalid},
			"no key":         {ctx, l, "", unreached(t), relock.ErrInvalid},
			"closed":         {ctx, foreign{err: relock.ErrClosed}, "k", unreached(t), relock.ErrClosed},
			"in a lost hold": {relock.ContextWithHold(ctx, lost), l, "k", unreached(t), relock.ErrLockLost},
		} {
			e := relock.NewLeader(c.locker, c.key)
			for range 2 {
				err := e.Run(c.ctx, c.fn)
				require.ErrorIs(t, err, c.want, name)
				require.Equal(t, c.key, asError(t, err).Key, name)
			}
			require.ErrorIs(t, e.IsLeader(ctx), relock.ErrNotHeld, name)
		}
		require.ErrorIs(t, new(relock.Leader).Run(ctx, unreached(t)), relock.ErrInvalid)
	})
}

// A panic of the function and its Goexit release the lock. The Leader can run
// again.
func TestLeaderWhoseFunctionPanics(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		l := relocktest.NewLocker()
		e := relock.NewLeader(l, "k")
		require.PanicsWithValue(t, "boom", func() { _ = e.Run(t.Context(), func(context.Context) error { panic("boom") }) })
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = e.Run(t.Context(), func(context.Context) error { runtime.Goexit(); return nil })
		}()
		<-done
		require.ErrorIs(t, e.IsLeader(t.Context()), relock.ErrNotHeld)
		require.NoError(t, e.Run(t.Context(), locktest.Nothing))
		require.NoError(t, relock.FromLocker(l, "k").TryLock(t.Context()))
	})
}

// A Leader runs once at a time, whatever its Run is doing.
func TestLeaderRunsOnce(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		l := relocktest.NewLocker()
		release := l.Busy("k")
		e := relock.NewLeader(l, "k")
		stop := runLeader(t, e, leads)
		second := func() error {
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			return e.Run(ctx, unreached(t))
		}
		require.EqualError(t, second(), `relock: run "k": invalid: leader: another Run has not returned`)
		release()
		synctest.Wait()
		require.ErrorIs(t, second(), relock.ErrInvalid)
		require.True(t, l.Lose("k"))
		synctest.Wait()
		require.ErrorIs(t, second(), relock.ErrInvalid)
		stop()
		require.NoError(t, e.Run(t.Context(), locktest.Nothing))
	})
}

// refusing is a Locker that refuses some calls before it grants.
type refusing struct {
	relock.Locker
	errs *[]error
}

func (l refusing) Lock(ctx context.Context, key string) (relock.Hold, error) {
	if all := *l.errs; len(all) > 0 {
		*l.errs = all[1:]
		return nil, all[0]
	}
	return l.Locker.Lock(ctx, key)
}

// A campaign that fails is repeated after a pause, also if the error is not
// temporary: a rotated password leaves no process without a candidate.
func TestLeaderSurvivesRefusals(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		l := refusing{relocktest.NewLocker(), &[]error{
			relock.ErrDenied, relock.ErrKeyConflict, relock.ErrQueueFull, relock.ErrReplicas, locktest.ErrMine,
		}}
		began := time.Now()
		require.NoError(t, relock.NewLeader(l, "k").Run(t.Context(), locktest.Nothing))
		requirePause(t, (1+2+4+8+16)*time.Second, time.Since(began))
	})
}

// The function may return the refusal of another lock. That is no failed
// campaign, so it does not end Run.
func TestLeaderWhoseFunctionIsRefused(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		l, terms := relocktest.NewLocker(), 0
		require.NoError(t, relock.NewLeader(l, "k").Run(t.Context(), func(ctx context.Context) error {
			if terms++; terms == 1 {
				return relock.Do(ctx, l, "", unreached(t))
			}
			return nil
		}))
		require.Equal(t, 2, terms)
	})
}

// mute is a Locker whose logger is nil.
type mute struct{ refusing }

func (mute) Logger() *slog.Logger { return nil }

func TestLeaderWithoutALogger(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		l := mute{refusing{relocktest.NewLocker(), &[]error{relock.ErrDenied}}}
		require.NoError(t, relock.NewLeader(l, "k").Run(t.Context(), locktest.Nothing))
	})
}
