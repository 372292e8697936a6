package lua_test

import (
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/scripttest"
)

var (
	heldGiven   = scripttest.AndThen(scripttest.HeldOnce, scripttest.TransferOf(scripttest.Hold1, scripttest.Hold2, scripttest.Lease))
	heldGiven2  = scripttest.AndThen(heldGiven, script.Call{Script: script.ReentrantEnter, Args: []any{scripttest.OwnerNext, scripttest.Hold2, 2, 2, scripttest.Lease.Milliseconds()}})
	heldGivenOn = scripttest.AndThen(heldGiven, script.Call{
		Script: script.ReentrantTransfer, Args: []any{scripttest.Hold2, scripttest.OwnerNext, scripttest.Hold3, scripttest.OwnerUs, scripttest.Lease.Milliseconds(), "info"},
	})
)

// A transfer replaces all that is of the hold, whatever its levels and its
// expiry were.
func TestTransferScript(t *testing.T) {
	s := redistest.Shared(t)
	for name, tt := range map[string]struct {
		state  []script.Call
		script script.Call
		want   map[string]string
	}{
		"one level":            {scripttest.HeldOnce, scripttest.TransferOf(scripttest.Hold1, scripttest.Hold2, scripttest.LongLease), scripttest.Given(scripttest.OwnerNext, scripttest.Hold2, "next")},
		"three levels":         {scripttest.HeldThree, scripttest.TransferOf(scripttest.Hold1, scripttest.Hold2, scripttest.LongLease), scripttest.Given(scripttest.OwnerNext, scripttest.Hold2, "next")},
		"a shorter lease":      {scripttest.HeldOnce, scripttest.TransferOf(scripttest.Hold1, scripttest.Hold2, time.Second), scripttest.Given(scripttest.OwnerNext, scripttest.Hold2, "next")},
		"given on":             {heldGivenOn, scripttest.TransferOf(scripttest.Hold3, "h9", scripttest.LongLease), scripttest.Given(scripttest.OwnerNext, "h9", "next")},
		"to the owner himself": {scripttest.HeldTwice, script.Call{Script: script.ReentrantTransfer, Args: []any{scripttest.Hold1, scripttest.OwnerUs, scripttest.Hold2, scripttest.OwnerUs, scripttest.LongLease.Milliseconds(), "next"}}, scripttest.Given(scripttest.OwnerUs, scripttest.Hold2, "next")},
	} {
		t.Run(name, func(t *testing.T) {
			b := scripttest.NewBench(t, s)
			b.SetUp(tt.state)
			require.Equal(t, int64(script.Ours), b.Run(tt.script))
			require.Equal(t, tt.want, b.State().Content)
			lease, err := redis.Int64(tt.script.Args[4], nil)
			require.NoError(t, err)
			scripttest.RequireExpiry(t, time.Duration(lease)*time.Millisecond, b.State().TTL)
		})
	}
}

// A release that names both holds ends either, once; then a late copy of the
// transfer finds nothing.
func TestTransferScriptAndReleaseOfEither(t *testing.T) {
	s := redistest.Shared(t)
	for name, state := range map[string][]script.Call{"before it": scripttest.HeldOnce, "after it": heldGiven, "after it, two levels": heldGiven2} {
		t.Run(name, func(t *testing.T) {
			b := scripttest.NewBench(t, s)
			b.SetUp(state)
			require.Equal(t, int64(script.Ours), b.Run(scripttest.ReleaseOfEither(scripttest.Hold1, scripttest.Hold2)))
			require.Equal(t, scripttest.Absent, b.State().TTL)
			require.Equal(t, int64(script.Other), b.Run(scripttest.ReleaseOfEither(scripttest.Hold1, scripttest.Hold2)))
			require.Equal(t, int64(script.Other), b.Run(scripttest.TransferOf(scripttest.Hold1, scripttest.Hold2, scripttest.LongLease)))
			require.Equal(t, scripttest.Absent, b.State().TTL)
		})
	}
}

// A transfer that is refused changes nothing, or leaves what a release of
// either ends; the key never is without an expiry.
func TestTransferScriptRefused(t *testing.T) {
	s := redistest.Start(t)
	for name, tt := range map[string]struct {
		denied string
		same   bool // nothing is changed
	}{
		"it may not read": {"-hmget", true}, "nor write": {"-hset", true}, "nor take out": {"-hdel", false}, "nor set an expiry": {"-pexpire", false},
	} {
		t.Run(name, func(t *testing.T) {
			b := scripttest.NewQueue(t, s)
			for _, step := range scripttest.HeldOnce {
				require.Equal(t, "1", b.Code(step))
			}
			before := b.State()
			b.Deny(s, tt.denied)
			_, err := b.Send(scripttest.TransferOf(scripttest.Hold1, scripttest.Hold2, scripttest.LongLease))
			var line redis.Error
			require.ErrorAs(t, err, &line)
			require.True(t, driver.IsDenied(line), line)
			if b.Less = nil; tt.same {
				scripttest.RequireSame(t, before, b.State())
			}
			require.Equal(t, "1", b.Code(scripttest.ReleaseOfEither(scripttest.Hold1, scripttest.Hold2)))
			require.Empty(t, b.Lock())
		})
	}
	t.Run("no token", func(t *testing.T) {
		b := scripttest.NewQueue(t, s)
		require.Equal(t, "1", b.Code(scripttest.HeldOnce[0]))
		before := b.State()
		b.Do("LPUSH", b.CounterKey(), "something else")
		b.Do("PEXPIRE", b.CounterKey(), 60_000)
		_, err := b.Send(scripttest.Fenced(scripttest.TransferOf(scripttest.Hold1, scripttest.Hold2, scripttest.LongLease)))
		require.ErrorContains(t, err, "WRONGTYPE")
		scripttest.RequireSame(t, before, b.State())
	})
	t.Run("out of memory", func(t *testing.T) {
		b := scripttest.NewBench(t, s)
		b.SetUp(scripttest.HeldOnce)
		before := b.State()
		s.Do(t, "CONFIG", "SET", "maxmemory", "1")
		t.Cleanup(func() { s.Do(t, "CONFIG", "SET", "maxmemory", "0") })
		_, err := b.Try(scripttest.TransferOf(scripttest.Hold1, scripttest.Hold2, scripttest.LongLease))
		require.ErrorContains(t, err, "OOM")
		scripttest.RequireSame(t, before, b.State())
		require.Equal(t, int64(script.Ours), b.Run(scripttest.ReleaseOfEither(scripttest.Hold1, scripttest.Hold2)))
		require.Equal(t, scripttest.Absent, b.State().TTL)
	})
}
