package proof

import (
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

// leastGrants is how many grants there are, on however slow a machine.
const leastGrants = 512

// worker takes a lock repeatedly until the end, and returns how long it waited
// each time. It counts the grants of all.
func worker(t *testing.T, lock *relock.RedisLock, end time.Time, grants *atomic.Int64) (waits []time.Duration) {
	for time.Now().Before(end) || grants.Load() < leastGrants {
		asked := time.Now()
		hold, err := lock.Acquire(t.Context())
		if err != nil {
			t.Errorf("no lock: %v", err)
			return waits
		}
		waits = append(waits, time.Since(asked))
		grants.Add(1)
		time.Sleep(time.Millisecond) // holds it
		if err := hold.Unlock(t.Context()); err != nil {
			t.Errorf("unlock: %v", err)
		}
	}
	return waits
}

// Under steady load a new caller can always take a lock that has just become
// free. No waiter waits for long.
func TestNoWaiterStarvesUnderSteadyLoad(t *testing.T) {
	for _, tt := range []struct {
		name    string
		options []relock.LockOption
		seconds int
	}{{"unfair", nil, pick(30, 1)}, {"fair", []relock.LockOption{relock.WithFair()}, pick(5, 1)}} {
		t.Run(tt.name, func(t *testing.T) {
			server := redistest.Start(t)
			var grants atomic.Int64
			watch := testkit.NewStopwatch(t)
			end := time.Now().Add(time.Duration(tt.seconds) * time.Second)
			all := make([][]time.Duration, 64)
			var group sync.WaitGroup
			for i := range all {
				if i%16 == 0 {
					client := newParentClient(t, server)
					lock := relock.NewRedisLock("steady", client, append(tt.options, relock.WithBlock())...)
					for k := range 16 {
						group.Go(func() { all[i+k] = worker(t, lock, end, &grants) })
					}
				}
			}
			group.Wait()
			fewest, most := len(all[0]), len(all[0])
			for _, waits := range all {
				fewest, most = min(fewest, len(waits)), max(most, len(waits))
			}
			waits := slices.Concat(all...)
			slices.Sort(waits)
			longest := waits[len(waits)-1]
			t.Logf("%d grants, %d to %d each; waits: median %v, 99 %% %v, longest %v", len(waits), fewest, most,
				waits[len(waits)/2].Round(time.Microsecond), waits[len(waits)*99/100].Round(time.Microsecond),
				longest.Round(time.Microsecond))
			watch.Check(longest, time.Duration(pick(1, 5))*time.Second)
			require.Greater(t, 2*fewest, most, "grants of a goroutine")
		})
	}
}
