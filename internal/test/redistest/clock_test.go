package redistest

import (
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"
)

func left(t *testing.T, s *Server, key string) time.Duration {
	t.Helper()
	ms, err := redis.Int64(s.Do(t, "PTTL", key), nil)
	require.NoError(t, err)
	return time.Duration(ms) * time.Millisecond
}

// A clock that jumps forward expires keys immediately, also inside a script and
// on an open connection.
func TestClockForward(t *testing.T) {
	t.Parallel()
	s, clock := StartWithClock(t)
	conn := s.Dial(t)
	defer conn.Close() //nolint:errcheck // the commands' errors count
	s.Do(t, "SET", "key", "value", "PX", 60_000)
	clock.Advance(t, 59*time.Second)
	require.LessOrEqual(t, left(t, s, "key"), time.Second)
	s.Do(t, "SET", "key", "value", "PX", 60_000)
	clock.Advance(t, 61*time.Second)
	exists, err := conn.Do("EVAL", "return redis.call('EXISTS', KEYS[1])", 1, "key")
	require.NoError(t, err)
	require.Equal(t, int64(0), exists)
}

// A clock that jumps back lengthens what keys have left.
func TestClockBack(t *testing.T) {
	t.Parallel()
	s, clock := StartWithClock(t)
	s.Do(t, "SET", "key", "value", "PX", 60_000)
	clock.Advance(t, -120*time.Second)
	require.Greater(t, left(t, s, "key"), 150*time.Second)
	require.Equal(t, -120*time.Second, clock.Offset())
	clock.Advance(t, 120*time.Second)
	require.LessOrEqual(t, left(t, s, "key"), 60*time.Second)
}

// The clock keeps its offset when the server is killed, and can be moved
// meanwhile. Keys in the append-only file expire by it.
func TestClockOverRestart(t *testing.T) {
	t.Parallel()
	s, clock := StartWithClock(t, "--appendonly", "yes", "--appendfsync", "always")
	clock.Advance(t, time.Hour)
	s.Do(t, "SET", "short", "value", "PX", 60_000)
	s.Do(t, "SET", "long", "value", "PX", 600_000)
	s.Kill(t)
	clock.Advance(t, 2*time.Minute)
	s.BootAndLoad(t)
	require.Equal(t, int64(0), s.Do(t, "EXISTS", "short"))
	require.InDelta(t, (8 * time.Minute).Seconds(), left(t, s, "long").Seconds(), 60)
}

// What is cut off the append-only file is missing after a restart.
func TestCutLog(t *testing.T) {
	t.Parallel()
	s := Start(t, "--appendonly", "yes", "--appendfsync", "always")
	s.Do(t, "SET", "before", "value")
	size := s.LogSize(t)
	s.Do(t, "SET", "after", "value")
	s.Kill(t)
	s.CutLog(t, size)
	s.BootAndLoad(t)
	require.Equal(t, int64(1), s.Do(t, "EXISTS", "before"))
	require.Equal(t, int64(0), s.Do(t, "EXISTS", "after"))
}
