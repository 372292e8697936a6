package background_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/background"
	"github.com/relock-go/relock/internal/goroutines"
	"github.com/relock-go/relock/internal/redis/conns"
	"github.com/relock-go/relock/internal/redis/driver"
	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/test/faults"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

// asking sends a script until it is answered.
type asking struct {
	key      string
	limit    time.Duration
	answered chan struct{}
}

func (a *asking) Key() string          { return a.key }
func (a *asking) Limit() time.Duration { return a.limit }

func (a *asking) Next(time.Time) (script.Call, bool) {
	return script.Call{Script: script.Renew, Key: a.key, Args: []any{"value", 1000}}, true
}

func (a *asking) Handle(o driver.Result) (time.Time, bool) {
	if o.Answered {
		a.answered <- struct{}{}
	}
	return time.Now(), !o.Answered
}

// newFleet returns a fleet of a server behind a proxy. The server knows the
// scripts.
func newFleet(t *testing.T, scripts ...*script.Script) (*background.Fleet, *faults.Proxy) {
	s := redistest.Start(t)
	for _, one := range scripts {
		s.Do(t, "SCRIPT", "LOAD", one.Source)
	}
	p := faults.Start(t, s.Network, s.Address)
	d := conns.NewPool(&driver.Config{
		Network: p.Network, Address: p.Address, Password: new(string), DialTimeout: time.Minute, CommandTimeout: time.Minute,
	})
	life, end := context.WithCancel(context.Background())
	var group goroutines.Group
	f := background.NewFleet(life, d, &group)
	t.Cleanup(func() {
		end()
		f.Close()
		group.Wait()
		require.NoError(t, d.Close())
	})
	return f, p
}

func ask(f *background.Fleet, key string, limit time.Duration) *asking {
	a := &asking{key: key, limit: limit, answered: make(chan struct{}, 1)}
	f.Add(background.NewJob(a), time.Now())
	return a
}

func asksFor(key string) faults.Match {
	return func(args []string) bool { return slices.Contains(args, key) }
}

// A connection that has gone silent under a patient batch delays a job that
// comes meanwhile for no longer than that job's own limit.
func TestImpatientJobEndsTheWait(t *testing.T) {
	t.Parallel()
	f, p := newFleet(t)
	p.On(asksFor("{patient}"), 1, faults.DropRequest)
	patient := ask(f, "{patient}", time.Minute)
	require.True(t, p.Await(asksFor("{patient}"), 1, testkit.Patience))
	impatient := ask(f, "{impatient}", driver.MinLimit)
	for _, a := range []*asking{impatient, patient} {
		_, answered := testkit.Await(a.answered, testkit.Patience)
		require.True(t, answered, a.key)
	}
}

// A server that is too slow for the job is not too slow for the batch: with
// each wait that was cut short, the next one may last longer, however many such
// jobs come.
func TestImpatientJobsStarveNoBatch(t *testing.T) {
	t.Parallel()
	f, p := newFleet(t, script.Renew)
	p.On(asksFor("{patient}"), faults.Every, faults.Delay(3*driver.MinLimit))
	patient := ask(f, "{patient}", time.Minute)
	ticks := time.NewTicker(driver.MinLimit / 2)
	defer ticks.Stop()
	end := time.After(testkit.Patience)
	for {
		select {
		case <-patient.answered:
			require.Greater(t, p.Count(asksFor("{patient}")), 1, "no wait was cut short")
			return
		case <-ticks.C:
			ask(f, "{impatient}", driver.MinLimit)
		case <-end:
			t.Fatal("starved")
		}
	}
}
