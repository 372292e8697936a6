package relock

import (
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/script"
)

// ownerNext is another owner of our client.
const ownerNext = "c1:g:2"

func transferOf(from, to string, lease time.Duration) script.Call {
	return script.Call{Script: script.ReentrantTransfer, Args: []any{from, ownerUs, to, ownerNext, lease.Milliseconds(), "next"}}
}

// releaseOfEither is the release of a hold that may have been transferred.
func releaseOfEither(hold, heir string) script.Call {
	s := reentrantReleaseOf(hold, 0, 9, 0)
	s.Args = append(s.Args, "", heir)
	return s
}

var (
	heldGiven   = andThen(heldOnce, transferOf(hold1, hold2, scriptLease))
	heldGiven2  = andThen(heldGiven, script.Call{Script: script.ReentrantEnter, Args: []any{ownerNext, hold2, 2, 2, scriptLease.Milliseconds()}})
	heldGivenOn = andThen(heldGiven, script.Call{
		Script: script.ReentrantTransfer, Args: []any{hold2, ownerNext, hold3, ownerUs, scriptLease.Milliseconds(), "info"},
	})
)

func given(owner, hold, info string) map[string]string {
	return map[string]string{owner: "1", "hold": hold, "seq": "#1", "info": info}
}

// A transfer replaces all that is of the hold, whatever its levels and its expiry were.
func TestTransferScript(t *testing.T) {
	s := redistest.Shared(t)
	for name, tt := range map[string]struct {
		state  []script.Call
		script script.Call
		want   map[string]string
	}{
		"one level":            {heldOnce, transferOf(hold1, hold2, longLease), given(ownerNext, hold2, "next")},
		"three levels":         {heldThree, transferOf(hold1, hold2, longLease), given(ownerNext, hold2, "next")},
		"a shorter lease":      {heldOnce, transferOf(hold1, hold2, time.Second), given(ownerNext, hold2, "next")},
		"given on":             {heldGivenOn, transferOf(hold3, "h9", longLease), given(ownerNext, "h9", "next")},
		"to the owner himself": {heldTwice, script.Call{Script: script.ReentrantTransfer, Args: []any{hold1, ownerUs, hold2, ownerUs, longLease.Milliseconds(), "next"}}, given(ownerUs, hold2, "next")},
	} {
		t.Run(name, func(t *testing.T) {
			b := newScriptBench(t, s)
			b.setUp(tt.state)
			require.Equal(t, int64(script.Ours), b.run(tt.script))
			require.Equal(t, tt.want, b.state().content)
			lease, err := redis.Int64(tt.script.Args[4], nil)
			require.NoError(t, err)
			requireExpiry(t, time.Duration(lease)*time.Millisecond, b.state().ttl)
		})
	}
}

// A release that names both holds ends either, once; then a late copy of the transfer finds nothing.
func TestTransferScriptAndReleaseOfEither(t *testing.T) {
	s := redistest.Shared(t)
	for name, state := range map[string][]script.Call{"before it": heldOnce, "after it": heldGiven, "after it, two levels": heldGiven2} {
		t.Run(name, func(t *testing.T) {
			b := newScriptBench(t, s)
			b.setUp(state)
			require.Equal(t, int64(script.Ours), b.run(releaseOfEither(hold1, hold2)))
			require.Equal(t, absent, b.state().ttl)
			require.Equal(t, int64(script.Other), b.run(releaseOfEither(hold1, hold2)))
			require.Equal(t, int64(script.Other), b.run(transferOf(hold1, hold2, longLease)))
			require.Equal(t, absent, b.state().ttl)
		})
	}
}

// A transfer that is refused changes nothing, or leaves what a release of either ends; the key never is without an expiry.
func TestTransferScriptRefused(t *testing.T) {
	s := redistest.Start(t)
	for name, tt := range map[string]struct {
		denied string
		same   bool // nothing is changed
	}{
		"it may not read": {"-hmget", true}, "nor write": {"-hset", true}, "nor take out": {"-hdel", false}, "nor set an expiry": {"-pexpire", false},
	} {
		t.Run(name, func(t *testing.T) {
			b := newQueueScripts(t, s)
			for _, step := range heldOnce {
				require.Equal(t, "1", b.code(step))
			}
			before := b.state()
			b.deny(s, tt.denied)
			_, err := b.send(transferOf(hold1, hold2, longLease))
			var line redis.Error
			require.ErrorAs(t, err, &line)
			require.True(t, driver.IsDenied(line), line)
			if b.less = nil; tt.same {
				requireSame(t, before, b.state())
			}
			require.Equal(t, "1", b.code(releaseOfEither(hold1, hold2)))
			require.Empty(t, b.lock())
		})
	}
	t.Run("no token", func(t *testing.T) {
		b := newQueueScripts(t, s)
		require.Equal(t, "1", b.code(heldOnce[0]))
		before := b.state()
		b.do("LPUSH", b.counter(), "something else")
		b.do("PEXPIRE", b.counter(), 60_000)
		_, err := b.send(fenced(transferOf(hold1, hold2, longLease)))
		require.ErrorContains(t, err, "WRONGTYPE")
		requireSame(t, before, b.state())
	})
	t.Run("out of memory", func(t *testing.T) {
		b := newScriptBench(t, s)
		b.setUp(heldOnce)
		before := b.state()
		s.Do(t, "CONFIG", "SET", "maxmemory", "1")
		t.Cleanup(func() { s.Do(t, "CONFIG", "SET", "maxmemory", "0") })
		_, err := b.try(transferOf(hold1, hold2, longLease))
		require.ErrorContains(t, err, "OOM")
		requireSame(t, before, b.state())
		require.Equal(t, int64(script.Ours), b.run(releaseOfEither(hold1, hold2)))
		require.Equal(t, absent, b.state().ttl)
	})
}
