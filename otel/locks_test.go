package relockotel_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/redistest"
	relockotel "github.com/relock-go/relock/otel"
)

// An error for each outcome of a call.
var errorsOfCalls = map[relock.Outcome]error{
	relock.OutcomeOK:          nil,
	relock.OutcomeCanceled:    context.Canceled,
	relock.OutcomeTimeout:     context.DeadlineExceeded,
	relock.OutcomeLost:        relock.ErrLockLost,
	relock.OutcomeUnconfirmed: relock.ErrUnconfirmed,
	relock.OutcomeClosed:      relock.ErrClosed,
	relock.OutcomeDenied:      relock.ErrDenied,
	relock.OutcomeInvalid:     relock.ErrInvalid,
	relock.OutcomeBusy:        relock.ErrLockAcquiredByOthers,
	relock.OutcomeUnavailable: relock.ErrQuorum,
	relock.OutcomeOther:       errors.New("boom"),
}

// An error for each outcome of a hold.
var errorsOfHolds = map[string]error{
	"ok":          nil,
	"lost":        relock.ErrLockLost,
	"forced":      errors.Join(relock.ErrLockLost, relock.ErrForced),
	"max_hold":    errors.Join(relock.ErrLockLost, relock.ErrMaxHold),
	"closed":      relock.ErrClosed,
	"unconfirmed": errors.Join(relock.ErrUnconfirmed, context.Canceled),
	"other":       errors.New("boom"),
}

var kinds = []string{"plain", "reentrant", "read", "write", "semaphore", "multi", "quorum", "etcd"}

// Each outcome of each kind is one series, with these attributes only.
func TestMetricsOfLocks(t *testing.T) {
	t.Parallel()
	require.Len(t, errorsOfCalls, 11)
	l, start := newLab(t), time.Now()
	end := start.Add(3 * time.Millisecond)
	calls, holds, renewals := map[string]float64{}, map[string]float64{}, map[string]float64{}
	for _, kind := range kinds {
		for outcome, err := range errorsOfCalls {
			err = fmt.Errorf("a job: %w", err)
			if outcome == relock.OutcomeOK {
				err = nil
			}
			for _, waited := range []bool{false, true} {
				l.Locks().LockDone(t.Context(), relock.LockDone{
					LockStart: relock.LockStart{Key: "order/7", Kind: kind}, Start: start, End: end, Err: err, Waited: waited,
				})
				calls[fmt.Sprintf("relock.kind=%s,relock.outcome=%s,relock.waited=%t", kind, outcome, waited)] = 1
			}
			l.Locks().RenewDone(t.Context(), relock.RenewDone{Key: "order/7", Kind: kind, Start: start, End: end, Err: err})
			renewals[fmt.Sprintf("relock.outcome=%s", outcome)] = float64(len(kinds))
		}
		for outcome, err := range errorsOfHolds {
			l.Locks().HoldDone(t.Context(), relock.HoldDone{Key: "order/7", Kind: kind, Start: start, End: end, Err: err})
			holds[fmt.Sprintf("relock.kind=%s,relock.outcome=%s", kind, outcome)] = 1
		}
	}
	require.Equal(t, calls, l.points("relock.acquire.duration"))
	require.Equal(t, holds, l.points("relock.hold.duration"))
	require.Equal(t, renewals, l.points("relock.renewal.duration"))
	for name, m := range l.collect() {
		require.Equal(t, "s", m.Unit, name)
		require.NotEmpty(t, m.Description, name)
		for _, p := range m.Data.(metricdata.Histogram[float64]).DataPoints {
			require.Len(t, p.Bounds, 18)
			require.InDelta(t, .003*float64(p.Count), p.Sum, 1e-9, "in seconds")
		}
	}
}

// Calls of a real client are measured: one that gets the lock, one that finds
// it held, and the ends of the holds.
func TestMetricsOfAClient(t *testing.T) {
	t.Parallel()
	l := newLab(t, relockotel.WithName(func(key string) string { return key[:1] }))
	c := newClient(t, redistest.Start(t), relock.WithObserver(l.Locks()))
	lock := relock.NewRedisLock("k/1", c)
	require.NoError(t, lock.Do(t.Context(), func(ctx context.Context) error {
		h, held := relock.HoldFromContext(ctx, "k/1")
		require.True(t, held)
		require.ErrorIs(t, relock.NewRedisLock("k/1", c).TryLock(ctx), relock.ErrLockAcquiredByOthers)
		return h.Extend(ctx, time.Minute)
	}))
	require.Equal(t, map[string]float64{
		"relock.kind=plain,relock.name=k,relock.outcome=ok,relock.waited=false":   1,
		"relock.kind=plain,relock.name=k,relock.outcome=busy,relock.waited=false": 1,
	}, l.points("relock.acquire.duration"))
	require.Equal(t, map[string]float64{"relock.kind=plain,relock.name=k,relock.outcome=ok": 1},
		l.points("relock.hold.duration"))
	require.Equal(t, map[string]float64{"relock.outcome=ok": 1}, l.points("relock.renewal.duration"))
}

// A key is no label. Of the names of a function, a thousand series are kept.
func TestCardinality(t *testing.T) {
	t.Parallel()
	const keys = 100_000
	l := newLab(t)
	measure := func(l *lab, n int) {
		hooks := l.Locks()
		for i := range n {
			key := fmt.Sprint(i)
			hooks.LockDone(t.Context(), relock.LockDone{LockStart: relock.LockStart{Key: key, Kind: "plain"}})
			hooks.HoldDone(t.Context(), relock.HoldDone{Key: key, Kind: "plain"})
		}
	}
	measure(l, keys)
	require.Equal(t, map[string]float64{"relock.kind=plain,relock.outcome=ok,relock.waited=false": keys},
		l.points("relock.acquire.duration"))
	require.Equal(t, map[string]float64{"relock.kind=plain,relock.outcome=ok": keys}, l.points("relock.hold.duration"))

	l = newLab(t, relockotel.WithName(func(key string) string { return "name " + key }))
	measure(l, 5000)
	calls := l.points("relock.acquire.duration")
	require.Len(t, calls, 1001)
	require.InDelta(t, 4000, calls["relock.kind=plain,relock.name=other,relock.outcome=ok,relock.waited=false"], 0)
	require.InDelta(t, 1, calls["relock.kind=plain,relock.name=name 999,relock.outcome=ok,relock.waited=false"], 0)
	require.Len(t, l.points("relock.hold.duration"), 1001)
	l.Locks().LockDone(t.Context(), relock.LockDone{LockStart: relock.LockStart{Key: "7", Kind: "read"}})
	require.InDelta(t, 1,
		l.points("relock.acquire.duration")["relock.kind=read,relock.name=other,relock.outcome=ok,relock.waited=false"], 0)
}

// Names for which there is no room are not lost if many calls come together.
func TestCardinalityTogether(t *testing.T) {
	t.Parallel()
	l := newLab(t, relockotel.WithName(func(key string) string { return key }))
	hooks, done := l.Locks(), make(chan struct{})
	for worker := range 8 {
		go func() {
			defer func() { done <- struct{}{} }()
			for i := range 1000 {
				hooks.LockDone(t.Context(),
					relock.LockDone{LockStart: relock.LockStart{Key: fmt.Sprint((i + 100*worker) % 1500), Kind: "plain"}})
			}
		}()
	}
	for range 8 {
		<-done
	}
	sum := 0.
	points := l.points("relock.acquire.duration")
	for _, n := range points {
		sum += n
	}
	require.InDelta(t, 8000, sum, 0)
	require.Len(t, points, 1001)
}
