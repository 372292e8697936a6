package proof

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

// forgottenLease is so long that no renewal comes while a test waits, but the
// one that it asks for.
const forgottenLease = 6 * testkit.Patience

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
		clock.Advance(t, 2*forgottenLease)
	}},
	{"clock jumps forward while it is down", func(t *testing.T, _ []string, acquire func(*redistest.Server)) {
		s, clock := redistest.StartWithClock(t, appendOnly("always")...)
		acquire(s)
		s.Kill(t)
		clock.Advance(t, 2*forgottenLease)
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
	used, err := redis.Int64(s.Do(t, "EVAL", "return tonumber(string.match(redis.call('INFO', 'memory'), "+
		"'used_memory:(%d+)'))", 0), nil)
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
				f := &forgotten{how: loss.name, kind: kind, taken: taken}
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
	testkit.Eventually(t, testkit.Patience, func() bool {
		left := 0
		for _, f := range all {
			if !f.lost && !f.found(t) {
				left++
			}
		}
		return left == 0
	}, "the renewals find the losses")
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
	lost   bool        // its holder knows
	next   relock.Hold // of the next holder
	value  string      // of next
}

func (f *forgotten) key() string { return fmt.Sprintf("%s, taken: %v", f.kind.name, f.taken) }

func (f *forgotten) acquire(t *testing.T, s *redistest.Server) {
	t.Helper()
	var err error
	f.server = s
	f.hold, err = f.kind.lock(f.key(), clientOf(t, s), relock.WithWatchdog(forgottenLease)).TryAcquire(t.Context())
	require.NoError(t, err)
}

// begin is what follows right after the loss. It asks for a renewal.
func (f *forgotten) begin(t *testing.T) {
	t.Helper()
	if f.taken {
		f.take(t)
	}
	locktest.RenewNow(f.hold)
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
	if f.hold.Context().Err() == nil {
		return false
	}
	requireLost(t, f.hold)
	f.lost = true
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
