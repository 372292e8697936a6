package main

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/examples/internal/runs"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Both replicas report, one after the other.
func TestElector(t *testing.T) {
	t.Parallel()
	runs.OnBoth(t, run, func(t *testing.T, out string) {
		require.Contains(t, out, "both have reported\n")
		require.NotRegexp(t, `ends: [^<]`, out)
	})
}

// candidate is a replica whose scheduler follows the clock of the test.
type candidate struct {
	*testing.T
	leader *relock.Leader
	stop   func() // ends its campaign or its term
}

func newCandidate(t *testing.T, s *redistest.Server, clock clockwork.Clock, job func()) *candidate {
	client, err := relock.NewClient(s.Network, s.Address, "")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	locker, err := relock.NewLocker(client)
	require.NoError(t, err)
	c := &candidate{T: t, leader: relock.NewLeader(locker, "scheduler")}
	schedule, err := gocron.NewScheduler(gocron.WithDistributedElector(c.leader), gocron.WithClock(clock))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, schedule.Shutdown()) })
	_, err = schedule.NewJob(gocron.DurationJob(time.Hour), gocron.NewTask(job))
	require.NoError(t, err)
	schedule.Start()
	return c
}

func (c *candidate) campaign() {
	ctx, cancel := context.WithCancel(c.Context())
	ended := testkit.Async(c, func() error {
		return c.leader.Run(ctx, func(ctx context.Context) error { <-ctx.Done(); return context.Cause(ctx) })
	})
	c.stop = func() {
		cancel()
		require.NoError(c, testkit.ResultWithin(c, ended, testkit.Patience))
	}
}

func (c *candidate) leads() bool { return c.leader.IsLeader(c.Context()) == nil }

// Each tick runs once at two schedulers, also through changes of the leader.
func TestEachTickRunsOnce(t *testing.T) {
	t.Parallel()
	var ran atomic.Int32
	s, clock := redistest.Start(t), clockwork.NewFakeClock()
	leads, waits := newCandidate(t, s, clock, func() { ran.Add(1) }), newCandidate(t, s, clock, func() { ran.Add(1) })
	leads.campaign()
	testkit.Eventually(t, testkit.Patience, leads.leads, "the first one does not lead")
	waits.campaign()
	scheduled := func() {
		require.NoError(t, clock.BlockUntilContext(t.Context(), 2), "both have set their timers")
	}
	scheduled()
	// As in real life, it is never exactly the time of a tick when gocron looks
	// for the next one: it would take the same tick again.
	clock.Advance(time.Second)
	for tick := range int32(10) {
		clock.Advance(time.Hour)
		scheduled() // again, and so both have looked whether they lead
		testkit.Eventually(t, testkit.Patience, func() bool { return ran.Load() > tick }, "a tick was left out")
		require.Equal(t, tick+1, ran.Load(), "a tick ran twice")
		if tick%3 == 2 {
			leads.stop()
			testkit.Eventually(t, testkit.Patience, waits.leads, "the other one does not lead")
			leads.campaign()
			leads, waits = waits, leads
		}
	}
	leads.stop()
	waits.stop()
	require.Equal(t, int32(10), ran.Load())
}
