package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/faults"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

// What each process of the load does.
const (
	processes, goroutines, calls = 3, 4, 25
	tasks                        = 10
)

// load takes a lock that others want, and enqueues tasks. It reports how long
// each call and each hold was, as it sees them, and then what is scraped.
func load(self *faults.Self) error {
	s, err := newService("unix://" + self.Args[0])
	if err != nil {
		return err
	}
	defer s.close()
	var group sync.WaitGroup
	failed := make([]error, goroutines)
	for i := range goroutines {
		group.Go(func() {
			for n := 0; n < calls && failed[i] == nil; n++ {
				failed[i] = s.contend(self)
			}
		})
	}
	group.Wait()
	for i := range tasks {
		failed = append(failed, s.enqueue(context.Background(), self.Args[1]+strconv.Itoa(i)))
	}
	self.Emit("loaded")
	<-self.Commands
	all, err := s.scrape()
	for _, one := range all {
		self.Emit("sample", one.name, one.labels["le"], one.labels["relock_waited"], one.value)
	}
	return errors.Join(append(failed, err)...)
}

func (s *service) contend(self *faults.Self) error {
	began := time.Now()
	return relock.NewRedisLock("hot/1", s.client, relock.WithBlock()).
		Do(context.Background(), func(context.Context) error {
			got := time.Now()
			time.Sleep(time.Millisecond) // the work
			self.Emit("own", got.Sub(began).Nanoseconds(), time.Since(got).Nanoseconds())
			return nil
		})
}

// What three processes under contention have counted themselves agrees with
// what is scraped from them: the calls, their waits, the holds and the queue. A
// call as they see it is a bit longer than the call itself, and a hold a bit
// shorter.
func TestThreeProcesses(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	var children []*faults.Child
	for i := range processes {
		children = append(children, faults.Spawn(t, "load", server.Address, fmt.Sprint("of ", i, ": ")))
	}
	for _, child := range children {
		child.Next("loaded", testkit.Patience)
	}
	var all []sample
	var waits, holds []float64
	for _, child := range children {
		child.Send("scrape")
		child.End(testkit.Patience)
		for _, e := range child.Events() {
			switch e.Name {
			case "own":
				waits, holds = append(waits, float64(e.Int(0))/1e9), append(holds, float64(e.Int(1))/1e9)
			case "sample":
				value, err := strconv.ParseFloat(e.Values[3], 64)
				require.NoError(t, err)
				all = append(all, sample{e.Values[0], map[string]string{"le": e.Values[1], "relock_waited": e.Values[2]}, value})
			}
		}
	}
	const n = processes * goroutines * calls
	require.Len(t, waits, n)
	require.InDelta(t, n, sum(all, "relock_acquire_duration_seconds_count", nil), 0)
	require.InDelta(t, n, sum(all, "relock_hold_duration_seconds_count", nil), 0)
	waited := sum(all, "relock_acquire_duration_seconds_count", map[string]string{"relock_waited": "true"})
	require.GreaterOrEqual(t, waited, float64(n)/2, "a process of four goroutines has one lock")
	require.LessOrEqual(t, sum(all, "relock_acquire_duration_seconds_sum", nil), total(waits))
	require.GreaterOrEqual(t, sum(all, "relock_hold_duration_seconds_sum", nil), total(holds))
	require.Zero(t, sum(all, "relock_held", nil))
	require.Zero(t, sum(all, "relock_waiting", nil))
	require.InDelta(t, processes*processes*tasks, sum(all, "relock_queue_ready", nil), 0,
		"each process sees the whole queue")

	slices.Sort(waits)
	p99 := waits[int(math.Ceil(.99*n))-1]
	least, most := quantile(all, "relock_acquire_duration_seconds_bucket", .99)
	t.Logf("%v of %d calls waited; p99 of the waits is %.1f ms, and from %.1f to %.1f ms by the scrape",
		waited, n, 1e3*p99, 1e3*least, 1e3*most)
	require.GreaterOrEqual(t, p99, least)
	for _, one := range all {
		if one.name == "relock_acquire_duration_seconds_bucket" {
			le, err := strconv.ParseFloat(one.labels["le"], 64)
			require.NoError(t, err)
			within := sum(all, one.name, map[string]string{"le": one.labels["le"]})
			require.GreaterOrEqual(t, within, float64(countUpTo(waits, le)), "calls of up to %v s", le)
		}
	}
}

func total(all []float64) (sum float64) {
	for _, one := range all {
		sum += one
	}
	return sum
}

// countUpTo returns how many values are at most as large as the limit.
func countUpTo(sorted []float64, limit float64) int {
	i, _ := slices.BinarySearch(sorted, math.Nextafter(limit, math.Inf(1)))
	return i
}

// quantile returns the bounds of the bucket that a quantile is in.
func quantile(all []sample, bucket string, q float64) (least, most float64) {
	counts := map[float64]float64{}
	for _, one := range all {
		if one.name == bucket {
			le, _ := strconv.ParseFloat(one.labels["le"], 64) // the test parses it, too
			counts[le] += one.value
		}
	}
	bounds := slices.Sorted(maps.Keys(counts))
	for i, le := range bounds {
		if counts[le] >= q*counts[math.Inf(1)] {
			if i > 0 {
				least = bounds[i-1]
			}
			return least, le
		}
	}
	return 0, 0
}
