package relock

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/redistest"
)

// firstCalls are the calls of a lock that can be its first.
func firstCalls(l interface {
	Mutex
	Acquire(context.Context) (Hold, error)
	TryAcquire(context.Context) (Hold, error)
},
) map[string]func(context.Context) error {
	return map[string]func(context.Context) error{
		"Lock":       l.Lock,
		"TryLock":    l.TryLock,
		"Unlock":     l.Unlock,
		"Do":         func(ctx context.Context) error { return l.Do(ctx, noWork) },
		"TryDo":      func(ctx context.Context) error { return l.TryDo(ctx, noWork) },
		"Acquire":    func(ctx context.Context) error { return second(l.Acquire(ctx)) },
		"TryAcquire": func(ctx context.Context) error { return second(l.TryAcquire(ctx)) },
	}
}

// A lock reports all mistakes at once too, by Validate and by every call, and nothing is sent.
func TestMistakenLock(t *testing.T) {
	t.Parallel()
	c := unconnected(t)
	opts := []LockOption{
		WithBlockTimeout(0), WithPollInterval(0), WithExpiry(0), WithWatchdog(1), WithMaxHold(0), WithMinHold(-1),
		WithLabel(strings.Repeat("x", 300)), WithQueueLimit(0), WithReplicas(0, 1), WithMaxLease(time.Minute),
	}
	names := []string{
		"WithBlockTimeout", "WithPollInterval", "WithExpiry", "WithWatchdog", "WithMaxHold", "WithMinHold", "WithLabel",
		"WithQueueLimit: 0", "WithReplicas: 0", "WithReplicas: 1ns", "a lease is either fixed or kept alive", "key: is empty", "WithMaxLease: this kind of lock cannot honour it",
	}
	plain, reentrant := NewRedisLock("", c, opts...), NewReentrantLock("", c, opts...)
	requireMistakes(t, plain.Validate(), "validate", names...)
	requireMistakes(t, reentrant.Validate(), "validate", names...)
	for _, calls := range []map[string]func(context.Context) error{firstCalls(plain), firstCalls(reentrant)} {
		for call, f := range calls {
			op := "lock"
			if call == "Unlock" {
				op = "unlock"
			}
			requireMistakes(t, f(t.Context()), op, names...)
			requireMistakes(t, f(t.Context()), op, names...)
		}
	}
}

func TestLockWithoutAClient(t *testing.T) {
	t.Parallel()
	for name, calls := range map[string]map[string]func(context.Context) error{
		"nil client":            firstCalls(NewRedisLock("k", nil, WithBlock())),
		"nil client, reentrant": firstCalls(NewReentrantLock("k", nil, WithBlock())),
		"zero client":           firstCalls(NewRedisLock("k", &Client{})),
		"zero lock":             firstCalls(&RedisLock{}),
		"zero reentrant":        firstCalls(&ReentrantLock{}),
	} {
		for call, f := range calls {
			require.ErrorIs(t, f(t.Context()), ErrInvalid, "%s: %s", name, call)
		}
	}
	for _, l := range []interface{ Validate() error }{
		NewRedisLock("k", nil), NewReentrantLock("k", &Client{}), &RedisLock{}, &ReentrantLock{},
	} {
		require.ErrorIs(t, l.Validate(), ErrInvalid)
	}
}

func TestMistakesInACall(t *testing.T) {
	t.Parallel()
	c := unconnected(t)
	var none context.Context
	for _, calls := range []map[string]func(context.Context) error{firstCalls(NewReentrantLock("k", c)), firstCalls(NewRedisLock("k", c))} {
		for call, f := range calls {
			if call != "Unlock" {
				require.ErrorIs(t, f(none), ErrInvalid, call)
				require.ErrorContains(t, f(none), "context", call)
			}
		}
	}
	require.ErrorIs(t, c.Ping(none), ErrInvalid)
	require.ErrorIs(t, NewRedisLock("k", c).Do(t.Context(), nil), ErrInvalid)
	require.ErrorIs(t, NewReentrantLock("k", c).TryDo(t.Context(), nil), ErrInvalid)
	for _, id := range []string{"", strings.Repeat("x", 257)} {
		ctx := ContextWithOwner(t.Context(), id)
		for call, f := range firstCalls(NewReentrantLock("k", c)) {
			require.ErrorIs(t, f(ctx), ErrInvalid, call)
			require.ErrorContains(t, f(ctx), "ContextWithOwner", call)
		}
	}
}

func TestExtendMistakes(t *testing.T) {
	t.Parallel()
	c := newTestClient(t, redistest.Shared(t))
	h, err := NewRedisLock("k", c).Acquire(t.Context())
	require.NoError(t, err)
	until := h.ValidUntil()
	for _, d := range []time.Duration{0, -1, 9 * time.Millisecond, 10500 * time.Microsecond, 1<<63 - 1} {
		requireMistakes(t, h.Extend(t.Context(), d), "extend", "Extend")
	}
	require.NoError(t, h.Err())
	require.Equal(t, until, h.ValidUntil())
	require.NoError(t, h.Unlock(t.Context()))
}
