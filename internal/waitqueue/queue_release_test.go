package waitqueue_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/locktest"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/script"
)

// A release whose answer is lost is sent again, when the lock is reserved for the next one already: it was no loss.
func TestReleaseIsSentTwice(t *testing.T) {
	locktest.EachMode(t, func(t testing.TB, m locktest.QueueMode) {
		s := locktest.NewFaultServer(t)
		q := locktest.NewQueueBenchOn(t, s, m, 1)
		proxy := faults.Start(t, s.Network, s.Address)
		holder := locktest.Sibling(t, &redistest.Server{Network: proxy.Network, Address: proxy.Address}, q.Clients[0])
		waiterProxy := faults.Start(t, s.Network, s.Address)
		waiterProxy.On(faults.Script(script.Claim.SHA), faults.Every, faults.DelayRequest(locktest.AnswerLimit)) // it stays reserved meanwhile
		waiter := locktest.Sibling(t, &redistest.Server{Network: waiterProxy.Network, Address: waiterProxy.Address}, q.Clients[0])
		release := func(args []string) bool {
			return faults.Script(script.Release.SHA)(args) || faults.Script(script.ReentrantRelease.SHA)(args)
		}
		for n, action := range []faults.Action{faults.CutAfter, faults.CutInAnswer} {
			h := q.Take(holder)
			w := q.WaitNext(context.Background(), 0, waiter)
			proxy.On(release, 1, action)
			require.NoError(t, h.Unlock(t.Context()))
			require.GreaterOrEqual(t, proxy.Count(release), 2*(n+1), "the answer was lost")
			q.Unlock(w.Granted())
		}
		q.RequireNothingLeft()
	})
}
