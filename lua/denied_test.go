package lua_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/redistest"
)

// A script that may not do what it needs is refused with the error of the
// server, not as a conflict. It changes nothing.
func TestScriptsErrors(t *testing.T) {
	refused := func(name string, state []script.Call, line []Wait, denied []any, calls ...script.Call) {
		for i, call := range calls {
			t.Run(fmt.Sprint(name, " ", i), func(t *testing.T) {
				b := NewQueue(t, server)
				b.SetUp(state)
				b.Line(time.Minute, line...)
				before := b.Everything()
				b.Deny(denied...)
				b.RequireDenied(call)
				require.Equal(t, before, b.Everything())
			})
		}
	}
	for _, letters := range allLetters {
		w, holder := WaitNamed("c1", 1, letters), WaitNamed("c9", 1, letters)
		held, read := []script.Call{holder.Try()}, []any{"-hmget"}
		if letters[0] == 'p' {
			read[0] = "-get"
		}
		refused(letters, held, []Wait{w}, read, w.Try(), w.Enqueue(), w.Claim(), w.Cancel(1), PollAs("c1", string(w), 5),
			holder.Release(), inspect, lookAt)
		refused(letters+", to delete", held, nil, []any{"-del"}, holder.Release())
		other := WaitNamed("c2", 1, letters)
		refused(letters+", for an expiry", held, []Wait{other}, []any{"-pexpire"}, w.Enqueue(), PollAs("c1", string(w), 5))
		refused(letters+", for an expiry, nobody waits", held, nil, []any{"-pexpire"}, w.Enqueue(),
			PollAs("c1", string(w), 5))
	}
	refused("plain", PlainHeld, nil, []any{"-get"}, AcquireOf(Plain1, "", Lease), RenewOf(Plain1, Lease), redLock)
	refused("reentrant", HeldOnce, nil, []any{"-hmget"}, ReentrantAcquireOf(OwnerUs, Hold1, Lease),
		EnterOf(Hold1, 2, 2, Lease), ReentrantRenewOf(Hold1, Lease))
	refused("reentrant, another kind", PlainHeld, nil, []any{"-get"}, ReentrantAcquireOf(OwnerUs, Hold1, Lease))
	refused("set", nil, nil, []any{"-set", "-info"}, AcquireOf(Plain1, "", Lease), multiOfOne, redLock)
	refused("mget", nil, nil, []any{"-mget"}, multiOfOne)
	refused("exists", nil, nil, []any{"-exists"}, multiOfOne)
	refused("redlock, set", nil, nil, []any{"-set"}, redLock)

	x, y, w := WaitNamed("c1", 1, "sf"), WaitNamed("c2", 1, "sf"), WaitNamed("c5", 1, "wf")
	refused("read/write", []script.Call{x.Try()}, nil, []any{"-zrange"},
		x.Try(), x.Enqueue(), x.Claim(), x.Cancel(1), RWPollAs("c1", string(x), 5), x.Enter(2, 0, 2, LongLease),
		x.Renew(LongLease),
		rwInspect, x.End("look", ""))
	refused("read/write, to release", []script.Call{x.Try()}, nil, []any{"-zmscore", "-zscore"}, x.Release())
	refused("read/write, to release to one that waits", []script.Call{x.Try()}, []Wait{w}, []any{"-zrange"}, x.Release())
	refused("read/write, to release beside another", []script.Call{x.Try(), y.Try()}, nil, []any{"-zrem"}, x.Release())
	longer := x.Try()
	longer.Args[1] = LongLease.Milliseconds() // the key's expiry is not late enough
	refused("read/write, for an expiry", []script.Call{y.Try()}, nil, []any{"-pexpire"}, longer, w.Enqueue())
	b := NewHeld(t, server, y)
	b.Put("f", -time.Second, "r:c9:1")
	b.Deny("-pexpire")
	b.RequireDenied(longer)
	require.Equal(t, []string{y.Reads()}, b.Entries(), "the one that has ended has gone")
	renew := y.Renew(LongLease)
	renew.Key = b.Key
	r := renew.BySource()
	_, err := b.Less.Do(r.Cmd, r.Args...) // the lock ends before the hold does
	RequireDenied(t, err)
}

// A lock that may have no expiry goes, or becomes something that has one.
func TestQueueScriptsNoPermissionForAnExpiry(t *testing.T) {
	calls := map[string]script.Call{"reentrant_acquire": ReentrantAcquireOf(OwnerUs, Hold1, Lease)}
	for _, letters := range []string{"ru", "rf", "sf"} {
		w := WaitNamed("c1", 1, letters)
		calls[letters+" try"], calls[letters+" enqueue"], calls[letters+" claim"] = w.Try(), w.Enqueue(), w.Claim()
	}
	delete(calls, "sf claim")
	for name, call := range calls {
		for _, denied := range [][]any{{"-pexpire"}, {"-pexpire", "-del"}, {"-zrem", "-pexpire"}} {
			t.Run(fmt.Sprint(name, denied), func(t *testing.T) {
				b := NewQueue(t, server)
				if call.Script == script.Claim {
					b.Store(Wait(call.Args[0].(string)).Reserved())
					if denied[len(denied)-1] == "-del" {
						return // to take it, a reentrant wait deletes the reservation first
					}
				}
				b.Deny(denied...)
				b.RequireDenied(call)
				if denied[len(denied)-1] == "-del" {
					require.Equal(t, "relock/1|denied", b.Lock())
				} else {
					require.Equal(t, int64(0), b.Do("EXISTS", b.Key, b.Key+script.HoldersSuffix))
				}
			})
		}
	}
}

// A release frees the lock whatever happens to the queue.
func TestQueueScriptsReleaseWithoutPermission(t *testing.T) {
	w, gone := WaitNamed("c1", 1, "pf"), WaitNamed("gone", 1, "pf")
	for _, letters := range allLetters {
		holder := WaitNamed("c9", 1, letters)
		for denied, reserved := range map[string]bool{
			"-zrange": false, "-time": false, "-publish": true, "-zremrangebyrank": false, "-exists": true, "-set": false,
		} {
			for how, call := range map[string]script.Call{"release": holder.Release(), "cancel": holder.Cancel(1)} {
				t.Run(letters+"/"+denied+"/"+how, func(t *testing.T) {
					b := NewHeld(t, server, holder)
					b.Queued(gone, w)
					b.Deny(denied)
					require.Equal(t, "1", b.Code(call))
					if reserved {
						b.RequireHandedTo(w, nil)
						return
					}
					require.Empty(t, b.Lock())
					require.Len(t, b.Waits(), 2)
				})
			}
		}
		b := NewHeld(t, server, holder)
		b.Do("SET", b.QueueKey(), "text", "PX", 20_000)
		require.Equal(t, "1", b.Code(holder.Release()), "the queue is something else")
		require.Empty(t, b.Lock())
	}
	x, writes := WaitNamed("c1", 1, "sf"), WaitNamed("c5", 1, "wf")
	alone := NewHeld(t, server, x)
	alone.Deny("-del")
	require.Equal(t, "1", alone.Code(x.Release()))
	require.Empty(t, alone.Entries())
	for _, denied := range []string{"-zremrangebyrank", "-pexpire", "-publish", "-del"} {
		b := NewHeld(t, server, writes)
		b.Queued(x)
		b.Deny(denied)
		require.Equal(t, "1", b.Code(writes.Release()))
		require.NotContains(t, b.Entries(), writes.Writes())
		b.Less = nil
		require.Equal(t, "1", b.Code(x.EnqueueAgain("5", "")), "the lock can be had")
		b.Require(denied, []string{x.Reads()})
	}
}

// A Cluster that moves a slot accepts only the lock's key. With it alone a hold
// is released, and waiters learn of that by polling. A read/write hold is also
// renewed, and a reservation claimed.
func TestScriptsWithTheLocksKeyAlone(t *testing.T) {
	alone := func(b *Queue, call script.Call) {
		b.Helper()
		r := call.Script.BySource([]string{b.Key}, call.Args)
		require.Equal(b, int64(1), b.Do(r.Cmd, r.Args...))
	}
	w := WaitNamed("c1", 1, "pf")
	for _, letters := range allLetters {
		holder := WaitNamed("c9", 1, letters)
		b := NewHeld(t, server, holder)
		b.Queued(w)
		alone(b, holder.Release())
		b.Require("", nil, w)
	}
	for _, letters := range allLetters {
		b := NewQueue(t, server)
		claimer := WaitNamed("c9", 1, letters)
		b.Queued(w)
		claim := claimer.Claim().Script.BySource([]string{b.Key}, claimer.Claim().Args)
		_, err := b.Conn.Do(claim.Cmd, claim.Args...)
		require.ErrorContains(t, err, "TRYAGAIN")
		b.Require("", nil, w)
		b.Store(claimer.Reserved())
		for range 2 { // the second one finds the hold
			require.Equal(t, []any{int64(1)}, b.Do(claim.Cmd, claim.Args...))
			require.Contains(t, b.Lock(), claimer.Hold())
		}
		b.Require("", []string{claimer.Held()}, w)
	}
	x, y, writes := WaitNamed("c1", 1, "sf"), WaitNamed("c2", 1, "sf"), WaitNamed("c5", 1, "wf")
	b := NewHeld(t, server, x, y)
	b.Queued(writes)
	alone(b, x.Renew(LongLease))
	RequireExpiry(t, LongLease+locktest.ClockGrain, b.Left(x))
	alone(b, y.Release())
	alone(b, x.Leave(2, 0, 3))
	b.Require("", []string{x.Reads()}, writes)
	alone(b, x.Release())
	b.Require("", nil, writes)
	require.Equal(t, string(writes), b.Ask(RWPollAs("c5", string(writes), 5))[4])
}

// Without memory a plain lock that is reserved for the waiter is claimed: the
// waiter may have it by a message already.
func TestClaimOfAReservationWithoutMemory(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	for _, w := range []Wait{nonced("c1", 1, "pu"), nonced("c1", 1, "pf"), WaitNamed("c1", 1, "pf")} {
		b := NewQueue(t, s)
		b.Do("SET", b.Key, w.Reserved(), "PX", 1000)
		other := WaitNamed("c2", 1, "pf")
		b.Queued(other)
		fillMemory(t, s)
		require.Equal(t, "1", b.Code(w.Claim()))
		b.Require("", []string{w.Held()}, other)
		b.RequireTTL(Lease)
		s.Do(t, "CONFIG", "SET", "maxmemory", "0")
	}
}

// Without memory a script that takes a lock, or waits for it, is refused, and
// changes nothing. What goes through is in TestQueueScriptHandOffByAll and
// TestRWScriptHandOff.
func TestQueueScriptsOutOfMemory(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	w, other, holder := WaitNamed("c1", 1, "pf"), WaitNamed("c2", 1, "pf"), WaitNamed("c9", 1, "pf")
	unfair, unfairReentrant := WaitNamed("c1", 1, "pu"), WaitNamed("c1", 1, "ru")
	x, y, writer := WaitNamed("c1", 1, "sf"), WaitNamed("c2", 1, "sf"), WaitNamed("c9", 1, "wf")
	redLockWait := script.Call{Script: script.RedLockWait, Args: []any{Plain1, 60_000, 0, "c1:1:q", 400}}
	for name, tt := range map[string]struct {
		call script.Call
		held string // what the lock's key is set to, if anything
		line []Wait
	}{
		"try":                      {w.Try(), "", nil},
		"try, reentrant":           {WaitNamed("c1", 1, "rf").Try(), "", nil},
		"enqueue, free":            {w.Enqueue(), "", nil},
		"enqueue, free, reentrant": {unfairReentrant.Enqueue(), "", nil},
		"enqueue, held":            {w.Enqueue(), holder.Held(), nil},
		"enqueue, others wait":     {w.Enqueue(), "", []Wait{other}},
		"enqueue, reserved for it": {w.Enqueue(), w.Reserved(), []Wait{other}},
		"enqueue, unfair, waits":   {unfair.EnqueueAgain("5", ""), "", []Wait{unfair}},
		"claim, unfair, free":      {unfair.Claim(), "", []Wait{WaitNamed("c2", 1, "pu"), unfair}},
		"claim, reentrant, free": {
			unfairReentrant.Claim(), "", []Wait{WaitNamed("c2", 1, "ru"), unfairReentrant},
		},
		"enqueue, after an earlier":          {w.EnqueueAgain("", holder.Hold()), holder.Held(), nil},
		"enqueue again, is queued":           {w.EnqueueAgain("5", ""), holder.Held(), []Wait{w}},
		"rw_try":                             {x.Try(), "", nil},
		"rw_try beside another":              {x.Try(), y.Reads(), nil},
		"rw_enqueue":                         {x.Enqueue(), "", nil},
		"rw_enqueue, held":                   {x.Enqueue(), writer.Writes(), nil},
		"rw_enter":                           {x.Enter(2, 0, 2, LongLease), x.Reads(), nil},
		"upgrade":                            {x.Enter(1, 1, 2, LongLease), x.Reads(), nil},
		"multi_acquire":                      {multiOfOne, "", nil},
		"redlock_acquire":                    {redLock, "", nil},
		"redlock_acquire, waits":             {redLockWait, "", nil},
		"redlock_acquire, waits for a token": {Fenced(redLockWait), "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			b := NewQueue(t, s)
			b.Store(tt.held)
			b.Queued(tt.line...)
			before := b.Everything()
			fillMemory(t, s)
			b.RequireError(tt.call, "OOM")
			require.Equal(t, before, b.Everything())
		})
	}
	t.Run("a read/write hold is renewed", func(t *testing.T) {
		b := NewHeld(t, s, writer)
		fillMemory(t, s)
		b.RequireDone(writer.Renew(LongLease))
		RequireExpiry(t, LongLease+locktest.ClockGrain, b.Left(writer))
	})
	t.Run("an inner level is released", func(t *testing.T) {
		b := NewQueue(t, s)
		b.SetUp(HeldTwice)
		fillMemory(t, s)
		b.RequireDone(ReentrantReleaseOf(Hold1, 1, 3, 0))
		count, err := redis.Strings(s.Try(t, "HMGET", b.Key, OwnerUs, "seq"))
		require.NoError(t, err)
		require.Equal(t, []string{"1", "#3"}, count)
	})
	t.Run("a poll shows that its client lives, and puts back", func(t *testing.T) {
		b := NewHeld(t, s, holder)
		fillMemory(t, s)
		require.Equal(t, []string{"1", ""}, b.Ask(PollAs("c1", string(w), 77))[:2])
		b.RequireWaits("", w)
		require.Equal(t, "77", b.Field("t"))
		require.NotEmpty(t, b.Field("c1"))
	})
}
