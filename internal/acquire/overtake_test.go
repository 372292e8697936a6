package acquire_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/test/faults"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

// A call that overtakes the queue of a half-moved slot may get no answer. Then
// it does not wait for the lock that it has itself: that is released
// immediately.
func TestOvertakingWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	const lease, tryAgain = time.Minute, "TRYAGAIN Multiple keys request during rehashing of slot"
	s := locktest.WithScripts(t, redistest.Start(t))
	type attempts struct {
		first, overtaking faults.Match
		copy              int
	}
	testkit.Each(t, map[string]attempts{
		"RedisLock":     {faults.Command("SET"), faults.Script(script.Acquire.SHA), 1},
		"ReentrantLock": {faults.Script(script.ReentrantAcquire.SHA), faults.Script(script.ReentrantAcquire.SHA), 2},
	}, func(t *testing.T, kind string, tt attempts) {
		c, proxy := locktest.Behind(t, s)
		proxy.On(tt.first, 1, faults.ErrorLine(tryAgain))
		proxy.On(faults.Script(script.Enqueue.SHA), 1, faults.ErrorLine(tryAgain))
		unanswered := proxy.On(tt.overtaking, tt.copy, faults.DropAnswer)
		l := locktest.AllKinds[kind]("k", c, relock.WithBlock(), relock.WithExpiry(lease))
		ctx, cancel := context.WithTimeout(t.Context(), testkit.Patience)
		defer cancel()
		h, err := l.Acquire(ctx)
		require.NoError(t, err)
		<-unanswered
		require.NoError(t, h.Unlock(t.Context()))
		testkit.Eventually(t, testkit.Patience,
			func() bool { return s.Do(t, "EXISTS", locktest.KeyOf(c, "k")) == int64(0) }, "is free")
	})
}
