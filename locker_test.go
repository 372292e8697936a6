package relock

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/testkit"
)

// A Locker is checked when it is made.
func TestLockerMistakes(t *testing.T) {
	t.Parallel()
	c := newTestClient(t, redistest.Start(t))
	for name, tt := range map[string]struct {
		client *Client
		opt    LockOption
		want   string
	}{
		"no client":         {nil, nil, "client"},
		"a block timeout":   {c, WithBlockTimeout(time.Second), "WithBlockTimeout"},
		"a largest lease":   {c, WithMaxLease(time.Minute), "WithMaxLease"},
		"too short a lease": {c, WithWatchdog(time.Millisecond), "WithWatchdog"},
	} {
		t.Run(name, func(t *testing.T) {
			l, err := NewLocker(tt.client, tt.opt)
			require.Nil(t, l)
			require.ErrorIs(t, err, ErrInvalid)
			require.ErrorContains(t, err, tt.want)
			require.ErrorContains(t, err, "new locker")
		})
	}
}

// A block timeout that is the default of the client's locks does not end a Lock: only its context does.
func TestLockerWaitsUntilTheContextEnds(t *testing.T) {
	t.Parallel()
	c := newTestClient(t, redistest.Start(t), WithBlockTimeout(10*time.Millisecond))
	l, err := NewLocker(c, WithBlock())
	require.NoError(t, err)
	h, err := l.Lock(t.Context(), "a")
	require.NoError(t, err)
	start := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err = l.Lock(ctx, "a")
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.GreaterOrEqual(t, time.Since(start), 100*time.Millisecond)
	require.NoError(t, h.Unlock(t.Context()))
}

// Calls of a Locker that wait for one lock share a place in Redis, as those of a RedisLock do.
func TestLockerPassesOnInMemory(t *testing.T) {
	t.Parallel()
	q := newSeatBench(t)
	l, err := NewLocker(q.clients[0])
	require.NoError(t, err)
	h, err := l.Lock(t.Context(), queueKey)
	require.NoError(t, err)
	got := make(chan Hold, 1)
	go func() {
		next, err := l.Lock(t.Context(), queueKey)
		if err != nil {
			t.Errorf("Lock: %v", err)
		}
		got <- next
	}()
	testkit.Eventually(t, testkit.Patience, func() bool { return q.restsInRedis(q.clients[0]) }, "waits in Redis")
	fresh(h)
	require.NoError(t, h.Unlock(t.Context()))
	next := <-got
	require.Same(t, h.(hold).level.Lease(), next.(hold).level.Lease())
	require.NoError(t, next.Unlock(t.Context()))
}

// strange is a Locker that is not ours.
type strange struct {
	err  error
	hold *strangeHold
}

func (s strange) Lock(context.Context, string) (Hold, error) {
	if s.err != nil {
		return nil, s.err
	}
	return s.hold, nil
}

func (s strange) TryLock(ctx context.Context, key string) (Hold, error) { return s.Lock(ctx, key) }

type strangeHold struct {
	Hold
	ctx      context.Context
	unlocked int
	err      error // of Unlock
	over     error // of Err
}

func (h *strangeHold) Context() context.Context { return h.ctx }

func (h *strangeHold) Err() error { return h.over }

func (h *strangeHold) Unlock(ctx context.Context) error {
	h.unlocked++
	return errors.Join(h.err, ctx.Err())
}

// Do works with any Locker: it unlocks once, and says what came of it.
func TestDoWithAnyLocker(t *testing.T) {
	t.Parallel()
	own := errors.New("own")
	hold := func(err error) *strangeHold { return &strangeHold{ctx: t.Context(), err: err} }
	for name, tt := range map[string]struct {
		locker strange
		fn     error
		is     []error
		op     string
	}{
		"fine":                             {locker: strange{hold: hold(nil)}},
		"the function fails":               {locker: strange{hold: hold(nil)}, fn: own, is: []error{own}},
		"lost":                             {locker: strange{hold: hold(ErrLockLost)}, is: []error{ErrLockLost}},
		"lost, and it fails":               {locker: strange{hold: hold(ErrLockLost)}, fn: own, is: []error{own, ErrLockLost}},
		"closed":                           {locker: strange{hold: hold(ErrClosed)}, is: []error{ErrClosed}},
		"not confirmed":                    {locker: strange{hold: hold(ErrUnconfirmed)}},
		"unlocked by function":             {locker: strange{hold: hold(ErrNotHeld)}},
		"lost, and unlocked by function":   {locker: strange{hold: &strangeHold{ctx: t.Context(), err: ErrNotHeld, over: ErrLockLost}}, is: []error{ErrLockLost}},
		"closed, and unlocked by function": {locker: strange{hold: &strangeHold{ctx: t.Context(), err: ErrNotHeld, over: ErrClosed}}, fn: own, is: []error{own, ErrClosed}},
		"not locked":                       {locker: strange{err: own}, is: []error{own}, op: "lock"},
		"not locked, as another Op":        {locker: strange{err: wrap("take", "another", own)}, is: []error{own}, op: "lock"},
		"not locked, as ours":              {locker: strange{err: wrap("lock", "key", ErrClosed)}, is: []error{ErrClosed}, op: "lock"},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			err := Do(ctx, tt.locker, "key", func(context.Context) error { cancel(); return tt.fn })
			cancel()
			if tt.is == nil {
				require.NoError(t, err)
			}
			for _, want := range tt.is {
				require.ErrorIs(t, err, want)
			}
			if tt.op != "" {
				var e *Error
				require.ErrorAs(t, err, &e)
				require.Equal(t, Error{tt.op, "key", e.Err}, *e)
			} else {
				require.Equal(t, 1, tt.locker.hold.unlocked)
			}
		})
	}
}

// The function's context has the deadline of the caller's, and the values of the hold's.
func TestDoOfAnyLockerEndsWithTheCaller(t *testing.T) {
	t.Parallel()
	type name struct{}
	over, lose := context.WithCancelCause(context.WithValue(t.Context(), name{}, "value"))
	l := strange{hold: &strangeHold{ctx: over}}
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	require.NoError(t, Do(ctx, l, "key", func(work context.Context) error {
		at, ok := ctx.Deadline()
		got, same := work.Deadline()
		require.True(t, ok && same && got.Equal(at))
		require.Equal(t, "value", work.Value(name{}))
		require.NoError(t, work.Err())
		cancel()
		<-work.Done()
		require.ErrorIs(t, work.Err(), context.Canceled)
		return nil
	}))
	require.NoError(t, Do(t.Context(), l, "key", func(work context.Context) error {
		lose(ErrLockLost)
		<-work.Done()
		require.ErrorIs(t, context.Cause(work), ErrLockLost)
		return nil
	}))
}

// elsewhere is a Locker of somebody else's: its holds are not ours, and their
// contexts carry nothing.
type elsewhere struct{ Locker }

type foreignHold struct {
	Hold
	ctx context.Context
}

func (h foreignHold) Context() context.Context { return h.ctx }

func (l elsewhere) Lock(ctx context.Context, key string) (Hold, error) {
	h, err := l.Locker.Lock(ctx, key)
	return foreignHold{h, context.Background()}, err
}

// The function's context carries the hold of any Locker.
func TestDoOfAnyLockerCarriesTheHold(t *testing.T) {
	t.Parallel()
	l, err := NewLocker(newTestClient(t, redistest.Shared(t)))
	require.NoError(t, err)
	require.NoError(t, Do(t.Context(), elsewhere{l}, "k", func(ctx context.Context) error {
		h, ok := HoldFromContext(ctx, "k")
		require.True(t, ok)
		require.IsType(t, foreignHold{}, h)
		require.NoError(t, h.Extend(ctx, time.Minute))
		_, ok = HoldFromContext(ctx, "other")
		require.False(t, ok)
		return nil
	}))
}
