package proof

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/redistest"
)

const (
	// forgottenLease is long enough to separate two cases on a busy machine: a
	// loss found at the next renewal, within 3 s of the grant, and one found at
	// the renewal after it, after 6 s.
	forgottenLease = 9 * time.Second
	// forgottenFound is the limit for finding the loss. forgottenSlack may be
	// added to that, and to the delay of a timer of the same length: a renewal
	// that met a killed server is sent again within 500 ms. forgottenMost may
	// be added in any case.
	forgottenFound = forgottenLease/3 + 100*time.Millisecond
	forgottenSlack = 1500 * time.Millisecond
	forgottenMost  = 2400 * time.Millisecond
)

// dataLosses are the ways in which a server forgets its locks. Each starts a
// server and calls acquire before the loss.
var dataLosses = []struct {
	name   string
	forget func(t *testing.T, keys []string, acquire func(*redistest.Server))
}{
	{"killed and empty", func(t *testing.T, _ []string, acquire func(*redistest.Server)) {
		s := redistest.Start(t)
		acquire(s)
		s.Kill(t)
		s.BootAndLoad(t)
	}},
	{"power cut before the disk had it", func(t *testing.T, _ []string, acquire func(*redistest.Server)) {
		s := redistest.Start(t, appendOnly("always")...)
		s.Do(t, "SET", "something", "else") // makes the file
		size := s.LogSize(t)
		acquire(s)
		s.Kill(t)
		s.CutLog(t, size)
		s.BootAndLoad(t)
	}},
	{"FLUSHALL", func(t *testing.T, _ []string, acquire func(*redistest.Server)) {
		s := redistest.Start(t)
		acquire(s)
		s.Do(t, "FLUSHALL")
	}},
	{"DEL", func(t *testing.T, keys []string, acquire func(*redistest.Server)) {
		s := redistest.Start(t)
		acquire(s)
		for _, key := range keys {
			s.Do(t, "DEL", key)
		}
	}},
	{"evicted at random", func(t *testing.T, keys []string, acquire func(*redistest.Server)) {
		evict(t, "allkeys-random", keys, acquire)
	}},
	{"evicted by what is left", func(t *testing.T, keys []string, acquire func(*redistest.Server)) {
		evict(t, "volatile-ttl", keys, acquire)
	}},
	{"clock jumps forward", func(t *testing.T, _ []string, acquire func(*redistest.Server)) {
		s, clock := redistest.StartWithClock(t)
		acquire(s)
		clock.Advance(t, time.Minute)
	}},
	{"clock jumps forward while it is down", func(t *testing.T, _ []string, acquire func(*redistest.Server)) {
		s, clock := redistest.StartWithClock(t, appendOnly("always")...)
		acquire(s)
		s.Kill(t)
		clock.Advance(t, time.Minute)
		s.BootAndLoad(t)
	}},
}

func appendOnly(fsync string) []string {
	return []string{"--appendonly", "yes", "--appendfsync", fsync}
}

// evict fills the server's memory until it has thrown the keys out.
func evict(t *testing.T, policy string, keys []string, acquire func(*redistest.Server)) {
	t.Helper()
	s := redistest.Start(t, "--maxmemory-policy", policy)
	acquire(s)
	used, err := redis.Int64(s.Do(t, "EVAL", "return tonumber(string.match(redis.call('INFO', 'memory'), 'used_memory:(%d+)'))", 0), nil)
	require.NoError(t, err)
	s.Do(t, "CONFIG", "SET", "maxmemory", used+500_000)
	conn := s.Dial(t)
	defer conn.Close() //nolint:errcheck // the commands' errors count
	junk := strings.Repeat("x", 10_000)
	for i, left := 0, len(keys); left > 0; i++ {
		require.Less(t, i, 1_000_000, "the keys are not evicted")
		_, _ = conn.Do("SET", i, junk) // refused, once there is nothing left that may be evicted
		left, err = redis.Int(conn.Do("EXISTS", redis.Args{}.AddFlat(keys)...))
		require.NoError(t, err)
	}
	s.Do(t, "CONFIG", "SET", "maxmemory", 0)
}

// The next renewal finds a lock that the server has forgotten. It creates no
// key, and does not change the lock of the next holder.
func TestForgottenLockIsLostAtTheNextRenewal(t *testing.T) {
	t.Parallel()
	var all []*forgotten
	for _, loss := range dataLosses {
		var here []*forgotten
		var keys []string
		for _, kind := range serverKinds {
			for _, taken := range []bool{false, true} {
				f := &forgotten{how: loss.name, kind: kind, taken: taken, over: make(chan time.Time, 1), due: make(chan time.Time, 1)}
				here, keys = append(here, f), append(keys, serverKey(f.key()))
			}
		}
		loss.forget(t, keys, func(s *redistest.Server) {
			for _, f := range here {
				f.acquire(t, s)
			}
		})
		for _, f := range here {
			f.begin(t)
		}
		all = append(all, here...)
	}
	for open := len(all); open > 0; time.Sleep(5 * time.Millisecond) {
		open = 0
		for _, f := range all {
			if f.took == 0 && !f.found(t) {
				open++
			}
		}
	}
	for _, f := range all {
		f.release(t)
	}
}

// forgotten is one lock that its server has forgotten.
type forgotten struct {
	how    string
	kind   serverKind
	taken  bool // by somebody else before its holder knew
	server *redistest.Server
	hold   relock.Hold
	start  time.Time // right after the grant: the next renewal is due a third of the lease later
	over   chan time.Time
	due    chan time.Time // when a timer that was set to forgottenFound has fired
	took   time.Duration  // to be found
	next   relock.Hold    // of the next holder
	value  string         // of next
}

func (f *forgotten) key() string { return fmt.Sprintf("%s, taken: %v", f.kind.name, f.taken) }

func (f *forgotten) acquire(t *testing.T, s *redistest.Server) {
	t.Helper()
	var err error
	f.server = s
	f.hold, err = f.kind.lock(f.key(), clientOf(t, s), relock.WithWatchdog(forgottenLease)).TryAcquire(t.Context())
	require.NoError(t, err)
	f.start = time.Now()
	timer := time.AfterFunc(forgottenFound, func() { f.due <- time.Now() })
	t.Cleanup(func() { timer.Stop() })
	context.AfterFunc(f.hold.Context(), func() { f.over <- time.Now() })
}

// begin is what follows right after the loss.
func (f *forgotten) begin(t *testing.T) {
	t.Helper()
	if f.taken {
		f.take(t)
	}
}

func (f *forgotten) take(t *testing.T) {
	t.Helper()
	var err error
	f.next, err = f.kind.lock(f.key(), clientOf(t, f.server), relock.WithExpiry(time.Minute)).TryAcquire(t.Context())
	require.NoError(t, err, "%s: another client may lock", f.how)
	f.value = content(t, f.server, f.key())
}

// found checks the server, and reports whether the holder has noticed the loss.
func (f *forgotten) found(t *testing.T) bool {
	t.Helper()
	if f.next == nil {
		require.False(t, keyThere(t, f.server, f.key()), "%s: %s is made anew", f.how, f.key())
	}
	select {
	case at := <-f.over:
		f.took = at.Sub(f.start)
	default:
		require.Less(t, time.Since(f.start), forgottenFound+forgottenMost, "%s: the loss of %s is not found", f.how, f.key())
		return false
	}
	require.Less(t, f.took, forgottenFound+forgottenMost, "%s: the loss of %s is found too late", f.how, f.key())
	if f.took > forgottenFound {
		require.Less(t, f.start.Add(f.took).Sub(<-f.due), forgottenSlack, "%s: the loss of %s is found too late", f.how, f.key())
	}
	requireLost(t, f.hold)
	t.Logf("%s, %s: found lost %v after the grant, lease %v", f.how, f.key(), f.took.Round(time.Millisecond), forgottenLease)
	return true
}

// release unlocks the lost hold, which must not change the next one.
func (f *forgotten) release(t *testing.T) {
	t.Helper()
	if f.next == nil {
		f.take(t)
	}
	require.ErrorIs(t, f.hold.Unlock(t.Context()), relock.ErrLockLost)
	require.Equal(t, f.value, content(t, f.server, f.key()), "%s: the first holder has changed the next one's lock", f.how)
	require.NoError(t, f.next.Unlock(t.Context()))
}
