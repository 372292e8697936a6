package relock_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/redistest"
)

// clientOf returns a client of the server, with its own prefix.
func clientOf(t *testing.T, s *redistest.Server, opts ...relock.ClientOption) *relock.Client {
	t.Helper()
	c, err := relock.NewClient(s.Network, s.Address, "", append([]relock.ClientOption{relock.WithKeyPrefix(t.Name() + ":")}, opts...)...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

func lockerOf(t *testing.T, c *relock.Client, opts ...relock.LockOption) relock.Locker {
	t.Helper()
	l, err := relock.NewLocker(c, opts...)
	require.NoError(t, err)
	return l
}

// tryOnce and lockOnce take the lock and release it.
func tryOnce(ctx context.Context, l relock.Locker) error {
	h, err := l.TryLock(ctx, "k")
	if err != nil {
		return err
	}
	return h.Unlock(ctx)
}

func lockOnce(ctx context.Context, l relock.Locker) error {
	h, err := l.Lock(ctx, "k")
	if err != nil {
		return err
	}
	return h.Unlock(ctx)
}
