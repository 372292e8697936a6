package test

import (
	"context"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	etcdlock "github.com/relock-go/relock/etcd"
	"github.com/relock-go/relock/internal/test/testkit"
)

// The session ends while an Extend uses the stream of its renewals, under the
// race detector.
func TestSessionEndsDuringAnExtend(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	client := c.client(t)
	t.Run("by Close", func(t *testing.T) {
		for range 100 {
			l := newLocker(t, client)
			endDuringExtends(t, lock(t, l, "key"), lease, func() error { return l.Close() })
		}
	})
	t.Run("by Unlock, of a separate lease", func(t *testing.T) {
		l := newLocker(t, client)
		for range 100 {
			hold := lock(t, l, "key")
			require.NoError(t, hold.Extend(limited(t), 3*lease))
			endDuringExtends(t, hold, 3*lease, func() error { return hold.Unlock(limited(t)) })
		}
	})
}

// If the server is silent, an Extend returns at the deadline of its context or
// at the limit of a request. The error is retryable, and the renewals continue.
func TestExtendWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	f := newFaults()
	l := newLocker(t, c.faulty(t, f), etcdlock.WithTTL(9*time.Second))
	hold := lock(t, l, "key")
	f.on("LeaseKeepAlive", 1, silence)
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	s := testkit.NewStopwatch(t)
	require.ErrorIs(t, hold.Extend(ctx, time.Second), context.DeadlineExceeded)
	s.Within(200 * time.Millisecond)
	f.on("LeaseKeepAlive", 1, silence)
	err := hold.Extend(limited(t), time.Second)
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	require.True(t, relock.IsRetryableErr(err), "%v", err)
	require.NotErrorIs(t, err, relock.ErrClosed)
	require.NoError(t, hold.Extend(limited(t), time.Second))
	unlock(t, hold)
}

// endDuringExtends calls end while the hold is extended without a pause.
func endDuringExtends(t *testing.T, hold relock.Hold, d time.Duration, end func() error) {
	var extends sync.WaitGroup
	extended := make(chan struct{})
	extends.Go(func() {
		err := hold.Extend(limited(t), d)
		for close(extended); err == nil; {
			err = hold.Extend(limited(t), d)
		}
	})
	<-extended
	require.NoError(t, end())
	extends.Wait()
	require.Error(t, hold.Err())
}
