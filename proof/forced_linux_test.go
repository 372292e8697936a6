package proof

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/testkit"
)

// forcedPause is the longest pause between two requests of an operator, of
// which one may be cut off.
const forcedPause = 500 * time.Millisecond

// siege is processes that use one lock, while an operator ends its holds.
type siege struct {
	*rivals
	operators []*relock.Client // one for each server
	took      []time.Duration  // by the calls of the operators

	mu          sync.Mutex // held while a process is stopped or killed
	stops, cuts int
}

func newSiege(t *testing.T, kind string) *siege {
	t.Helper()
	goroutines := 4
	if kind == red {
		goroutines = 2
	}
	s := &siege{rivals: newRivals(t, kind, competing, goroutines)}
	for _, p := range s.proxies {
		s.operators = append(s.operators, newParentClient(t, locktest.ServerOf(p)))
	}
	return s
}

// disturb stops processes and cuts connections, until ctx ends.
func (s *siege) disturb(ctx context.Context) {
	for ctx.Err() == nil {
		s.stop()
		for range 3 {
			_, _ = testkit.Await(ctx.Done(), rand.N(2*rivalLease(s.kind)))
			p := s.proxies[rand.IntN(len(s.proxies))]
			p.Refuse() // cuts all connections
			p.Accept()
			s.cuts++
		}
	}
}

// stop stops a process for twice its lease.
func (s *siege) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.crew.Halt(rand.IntN(competing), 2*rivalLease(s.kind))
	s.stops++
}

// kill kills a process, and starts another in its place. All holds that were
// ended by force have been reported before.
func (s *siege) kill() {
	s.Helper()
	s.awaitServed()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.crew.Kill(rand.IntN(competing))
}

// force ends what has the lock, and reports whether there was something. Of a
// RedLock it does so on one server, or on all of them together.
func (s *siege) force() bool {
	s.Helper()
	key := rivalKey
	if s.kind == multi || s.kind == apart {
		key = rivalKeys[rand.IntN(len(rivalKeys))]
	}
	if rand.IntN(2) == 0 {
		return s.forceAt(key, s.operators[rand.IntN(len(s.operators))])
	}
	return s.forceAt(key, s.operators...)
}

// forceAt ends what has the key at these servers, and reports whether there was
// something. A call that was cut off is repeated.
func (s *siege) forceAt(key string, operators ...*relock.Client) (some bool) {
	s.Helper()
	errs, took := make([]error, len(operators)), make([]time.Duration, len(operators))
	var group sync.WaitGroup
	for i, operator := range operators {
		group.Go(func() {
			for errs[i] = relock.ErrUnconfirmed; again(errs[i]); {
				began := time.Now()
				errs[i] = operator.ForceUnlock(s.Context(), key, "test")
				took[i] = time.Since(began)
			}
		})
	}
	group.Wait()
	for i, err := range errs {
		if errors.Is(err, relock.ErrNotHeld) {
			continue
		}
		require.NoError(s, err)
		s.took, some = append(s.took, took[i]), true
	}
	return some
}

// again reports whether a call of ForceUnlock is to be repeated.
func again(err error) bool {
	return errors.Is(err, relock.ErrUnconfirmed) || relock.IsRetryableErr(err)
}

// An operator ends holds by force, one after the other, while processes are
// stopped and killed, and their connections are cut. No more holds are valid
// together than the kind allows. Each call of the operator returns once the
// lock was handed on: when the holder has acknowledged it, and at the latest
// when its lease has ended, or the reservation and then the lease. Each waiter
// is served. A holder that was cut off does not learn why its hold ended. So
// the operator goes on until one of them has.
func TestExclusionWhileLocksAreForced(t *testing.T) {
	t.Parallel()
	ends, pause := pick(1000, 8), pick(40, 4)
	for _, kind := range []string{plain, reentrant, toWrite, permits, multi, apart, red} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			s := newSiege(t, kind)
			s.awaitServed()
			ctx, cancel := context.WithCancel(t.Context())
			disturbed := testkit.Async(t, func() error {
				s.disturb(ctx)
				return nil
			})
			t.Cleanup(cancel)
			for n := 1; len(s.took) < ends || s.heard() == 0 && len(s.took) < 20*ends; n++ {
				if s.force() && n%pause == 0 {
					s.kill()
				}
			}
			cancel()
			require.NoError(t, testkit.ResultWithin(t, disturbed, patience))
			s.awaitServed()
			s.judge(s.finish())
		})
	}
}

func (s *siege) judge(visits []visit) {
	s.Helper()
	slices.Sort(s.took)
	median, most := s.took[len(s.took)/2], s.took[len(s.took)-1]
	s.Logf("%d holds, %d ends by force took %v, %v at most; %d holds know that they were ended by force; "+
		"%d stops, %d cuts, %d kills",
		len(visits), len(s.took), median, most, s.heard(), s.stops, s.cuts, len(s.crew.KilledAt))
	require.Empty(s, tooMany(s.kind, visits), "valid together")
	require.Positive(s, s.heard())
	lease := rivalLease(s.kind)
	s.watch.Check(median, lease/2, "the holders listen")
	s.watch.Check(most, 2*lease+forcedPause, "the reservation and the lease have ended")
}
