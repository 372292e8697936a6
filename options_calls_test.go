package relock_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/locktest"
	"github.com/relock-go/relock/internal/redistest"
)

// firstCalls are the calls of a lock that can be its first.
func firstCalls(l interface {
	relock.Mutex
	Acquire(context.Context) (relock.Hold, error)
	TryAcquire(context.Context) (relock.Hold, error)
},
) map[string]func(context.Context) error {
	return map[string]func(context.Context) error{
		"Lock":       l.Lock,
		"TryLock":    l.TryLock,
		"Unlock":     l.Unlock,
		"Do":         func(ctx context.Context) error { return l.Do(ctx, locktest.NoWork) },
		"TryDo":      func(ctx context.Context) error { return l.TryDo(ctx, locktest.NoWork) },
		"Acquire":    func(ctx context.Context) error { return locktest.Second(l.Acquire(ctx)) },
		"TryAcquire": func(ctx context.Context) error { return locktest.Second(l.TryAcquire(ctx)) },
	}
}

// A lock reports all mistakes at once too, by Validate and by every call, and nothing is sent.
func TestMistakenLock(t *testing.T) {
	t.Parallel()
	c := locktest.Unconnected(t)
	opts := []relock.LockOption{
		relock.WithBlockTimeout(0), relock.WithPollInterval(0), relock.WithExpiry(0), relock.WithWatchdog(1), relock.WithMaxHold(0), relock.WithMinHold(-1), relock.WithOwner(""),
		relock.WithLabel(strings.Repeat("x", 300)), relock.WithQueueLimit(0), relock.WithReplicas(0, 1),
	}
	names := []string{
		"WithBlockTimeout", "WithPollInterval", "WithExpiry", "WithWatchdog", "WithMaxHold", "WithMinHold", "WithOwner", "WithLabel",
		"WithQueueLimit: 0", "WithReplicas: 0", "WithReplicas: 1ns", "a lease is either fixed or kept alive", "key: is empty",
	}
	plain, reentrant := relock.NewRedisLock("", c, opts...), relock.NewReentrantLock("", c, opts...)
	requireMistakes(t, plain.Validate(), "validate", append(names, "this kind of lock cannot honour it")...)
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
		"nil client":            firstCalls(relock.NewRedisLock("k", nil, relock.WithBlock())),
		"nil client, reentrant": firstCalls(relock.NewReentrantLock("k", nil, relock.WithBlock())),
		"zero client":           firstCalls(relock.NewRedisLock("k", &relock.Client{})),
		"zero lock":             firstCalls(&relock.RedisLock{}),
		"zero reentrant":        firstCalls(&relock.ReentrantLock{}),
	} {
		for call, f := range calls {
			require.ErrorIs(t, f(t.Context()), relock.ErrInvalid, "%s: %s", name, call)
		}
	}
	for _, l := range []interface{ Validate() error }{
		relock.NewRedisLock("k", nil), relock.NewReentrantLock("k", &relock.Client{}), &relock.RedisLock{}, &relock.ReentrantLock{},
	} {
		require.ErrorIs(t, l.Validate(), relock.ErrInvalid)
	}
}

func TestMistakesInACall(t *testing.T) {
	t.Parallel()
	c := locktest.Unconnected(t)
	var none context.Context
	for _, calls := range []map[string]func(context.Context) error{firstCalls(relock.NewReentrantLock("k", c)), firstCalls(relock.NewRedisLock("k", c))} {
		for call, f := range calls {
			if call != "Unlock" {
				require.ErrorIs(t, f(none), relock.ErrInvalid, call)
				require.ErrorContains(t, f(none), "context", call)
			}
		}
	}
	require.ErrorIs(t, c.Ping(none), relock.ErrInvalid)
	require.ErrorIs(t, relock.NewRedisLock("k", c).Do(t.Context(), nil), relock.ErrInvalid)
	require.ErrorIs(t, relock.NewReentrantLock("k", c).TryDo(t.Context(), nil), relock.ErrInvalid)
	for _, id := range []string{"", strings.Repeat("x", 257)} {
		ctx := relock.ContextWithOwner(t.Context(), id)
		for call, f := range firstCalls(relock.NewReentrantLock("k", c)) {
			require.ErrorIs(t, f(ctx), relock.ErrInvalid, call)
			require.ErrorContains(t, f(ctx), "ContextWithOwner", call)
		}
	}
}

func TestExtendMistakes(t *testing.T) {
	t.Parallel()
	c := locktest.NewTestClient(t, redistest.Shared(t))
	h, err := relock.NewRedisLock("k", c).Acquire(t.Context())
	require.NoError(t, err)
	until := h.ValidUntil()
	for _, d := range []time.Duration{0, -1, 9 * time.Millisecond, 10500 * time.Microsecond, 1<<63 - 1} {
		requireMistakes(t, h.Extend(t.Context(), d), "extend", "Extend")
	}
	require.NoError(t, h.Err())
	require.Equal(t, until, h.ValidUntil())
	require.NoError(t, h.Unlock(t.Context()))
}
