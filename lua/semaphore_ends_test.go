package lua_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/redistest"
)

// A permit that is released stays taken until its minimum hold, counted from
// the grant, is over. A cancel, by a call that never got it, frees it.
func TestSemaphoreScriptMinimumHold(t *testing.T) {
	const keep = 30 * time.Second
	all := permits(4, "f", 2, keep)
	v, w, x := all[0], all[1], all[2]
	both := []string{v.Kept(), w.Reads()}
	b := NewQueue(t, server)
	b.Steps(
		Step("try", v.Try(), "1", inUse(v)),
		Step("try, another", w.Try(), "1", inUse(v, w)),
		Step("release", v.Release(), "2", both),
		Step("again", v.Release(), "2", both),
		Step("renew", v.Renew(LongLease), "0", both),
		Step("try, it is kept", x.Try(), "0", both),
		Step("cancel without the hold", v.Cancel(0), "1", both),
		Step("cancel, late", v.Cancel(1), "1", both),
		Step("cancel of one that nobody got", w.Cancel(1), "1", []string{v.Kept()}),
		Step("try", x.Try(), "1", []string{v.Kept(), x.Reads()}),
	)
	b.Queued(w)
	b.Steps(
		Step("release, others wait", x.Release(), "2", []string{v.Kept(), x.Kept()}, w),
		Step("again", x.Release(), "2", []string{v.Kept(), x.Kept()}, w),
	)
	b.RequireTTL(keep + locktest.ClockGrain)
	require.Equal(t, int64(0), b.Do("HLEN", b.Key+script.HoldersSuffix))

	b = NewQueue(t, server)
	short := PermitNamed("c1", 1, "u", 2, 10*time.Millisecond)
	b.RequireDone(short.Try(), w2(short).Try())
	b.Until(func() bool { return b.Do("ZCOUNT", b.Key, "-inf", fmt.Sprintf("(%d", -b.Now())) == int64(0) },
		"the minimum holds are over")
	b.RequireDone(short.Release())
	b.Queued(PermitNamed("c3", 1, "u", 1, 0))
	b.RequireDone(w2(short).Release())
	b.Require("nothing is kept", []string{PermitNamed("c3", 1, "u", 1, 0).Reserved()})
}

// w2 returns the same wait of another client.
func w2(w Wait) Wait { return "d" + w }

// The lease and the minimum hold of a permit end by themselves. A permit whose
// number is missing has no minimum hold.
func TestSemaphoreScriptEntriesEnd(t *testing.T) {
	all := permits(4, "f", 2, 0)
	v, w := all[0], all[1]
	for name, ended := range map[string]string{"in use": "r:old:1", "kept": "k:old:1", "reserved": "v:old:1:cf:5:2:0"} {
		t.Run(name, func(t *testing.T) {
			b := NewQueue(t, server)
			b.Put("cf", -time.Second, ended, "r:old:2")
			b.Steps(Step("nobody has one", v.Try(), "1", inUse(v)))
			b.Put("cf", -time.Second, ended)
			b.Steps(Step("there is one more", w.Try(), "1", inUse(v, w)))
			b.Put("cf", -time.Second, ended)
			b.RequireDone(v.Release())
			b.RequireTTL(Lease + locktest.ClockGrain)
			b.RequireDone(w.Release())
			require.Equal(t, int64(0), b.Do("EXISTS", b.Key, b.Key+script.HoldersSuffix), "the last one leaves nothing")
		})
	}
	for _, late := range []script.Call{v.Release(), v.Renew(Lease)} {
		b := NewQueue(t, server)
		b.Put("cf", -time.Second, v.Reads())
		b.Steps(Step("late", late, "0", nil))
	}
	b := NewHeld(t, server, v, w)
	b.Do("ZREM", b.Key, "#"+v.Hold())
	reply, err := b.Try(v.Release())
	require.NoError(t, err)
	require.Equal(t, int64(1), reply, "without a number nothing is kept")
	b.Require("", inUse(w))
}

// A permit ends by the end of its lease, or of its minimum hold if that comes
// later. The lock lasts as long as its last permit.
func TestSemaphoreScriptLeases(t *testing.T) {
	v, w := PermitNamed("c1", 1, "f", 2, 0), PermitNamed("c2", 1, "f", 2, 0)
	b := NewHeld(t, server, v)
	b.RequireDone(v.Renew(LongLease))
	b.RequireDone(w.Try())
	RequireExpiry(t, LongLease+locktest.ClockGrain, b.Left(v))
	RequireExpiry(t, Lease+locktest.ClockGrain, b.Left(w))
	b.RequireTTL(LongLease + locktest.ClockGrain)
	require.Equal(t, "1:0", b.Entry(v).Counts)
	for _, again := range []script.Call{v.Renew(Lease), v.Try(), v.Claim(), v.Enqueue()} {
		b.RequireDone(again)
		RequireExpiry(t, LongLease+locktest.ClockGrain, b.Left(v))
	}
	b.RequireDone(v.Release())
	b.RequireTTL(Lease + locktest.ClockGrain)
	b.RequireDone(w.Renew(2 * LongLease))
	b.RequireTTL(2*LongLease + locktest.ClockGrain)
	b.Clear()
	b.Put("cf", Keep, "r:other:1")
	b.RequireDone(v.Try())
	b.RequireTTL(Lease + locktest.ClockGrain)
}

// Without an acknowledgement, holds and reservations end, and what they leave
// is handed off. What is kept for a minimum hold stays.
func TestSemaphoreScriptFree(t *testing.T) {
	all := permits(3, "f", 3, 0)
	b := NewQueue(t, server)
	b.RequireDone(all[0].Try(), all[1].Try(), all[2].Try())
	l := b.Listen("c2")
	require.Equal(t, "0", b.Code(frees(all...)))
	b.Require("freed", nil)
	require.Equal(t, []string{"forced:c2:1 " + b.Key}, l.Heard())

	b.Clear()
	keeps, kept := PermitNamed("c4", 1, "f", 3, Keep), PermitNamed("c5", 1, "f", 3, Keep)
	reserved := PermitNamed("c6", 1, "f", 9, 0)
	b.RequireDone(all[0].Try(), keeps.Try(), kept.Try())
	require.Equal(t, "2", b.Code(kept.Release()))
	b.Put("cf", Lease, reserved.Reserved())
	b.Queued(all[1], all[2])
	there := []Wait{all[0], keeps, kept, reserved}
	require.Equal(t, "0", b.Code(frees(there...)))
	b.Require("freed", []string{keeps.Forced(), kept.Kept(), all[1].Reserved()}, all[2])
	require.Equal(t, "0", b.Code(keeps.Release()), "its holder finds out")
	require.Equal(t, "2", b.Code(kept.Release()))
	require.Equal(t, "0", b.Code(frees(there...)))
	b.Require("what came meanwhile stays", []string{keeps.Forced(), kept.Kept(), all[1].Reserved()}, all[2])
	require.Equal(t, "0", b.Code(frees(all...)))
	b.Require("again", []string{keeps.Forced(), kept.Kept(), all[2].Reserved()})
	require.Equal(t, "0", b.Code(frees(all...)))
	b.RequireTTL(Keep + locktest.ClockGrain)
}

// What a user may not do changes nothing, and is reported.
func TestSemaphoreScriptsWithoutPermission(t *testing.T) {
	v, w := PermitNamed("c1", 1, "f", 2, 0), PermitNamed("c2", 1, "f", 2, 0)
	for denied, calls := range map[string][]script.Call{
		"-zrange":          {v.Claim(), v.Cancel(1), v.Poll(), frees(v), v.Renew(Lease)},
		"-zmscore -zrange": {w.Try(), v.Release()}, // without the fast path, the state is read
		"-pexpire":         {w.Try(), w.Enqueue()},
		"-zrem -del":       {v.Release()},
	} {
		for _, call := range calls {
			b := NewQueue(t, server)
			b.Put("cf", Keep, v.Reads()) // the key ends before a new lease
			var rules []any
			for rule := range strings.FieldsSeq(denied) {
				rules = append(rules, rule)
			}
			b.Deny(rules...)
			b.RequireDenied(call)
			b.Require(denied, inUse(v))
		}
	}
	b := NewHeld(t, server, v)
	b.Deny("-del")
	b.RequireDone(v.Release())
	require.Empty(t, b.Entries())
	b = NewHeld(t, server, v, w)
	b.Deny("-zmscore")
	b.RequireDone(v.Release())
	b.Queued(v)
	b.Deny("-zrange")
	b.RequireDenied(w.Release())
}

// Without memory no permit is taken, but one is released and kept.
func TestSemaphoreScriptsOutOfMemory(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	v, w := PermitNamed("c1", 1, "f", 3, Keep), PermitNamed("c2", 1, "f", 3, Keep)
	b := NewHeld(t, s, v, w)
	x := PermitNamed("c3", 1, "f", 3, 0)
	before := b.Everything()
	s.Do(t, "CONFIG", "SET", "maxmemory", "1")
	for _, call := range []script.Call{x.Try(), x.Enqueue()} {
		b.RequireError(call, "OOM")
		require.Equal(t, before, b.Everything())
	}
	b.RequireDone(w.Renew(LongLease))
	require.Equal(t, "2", b.Code(v.Release()))
	require.Equal(t, "0", b.Code(frees(v, w)))
	b.Require("", []string{v.Kept(), w.Forced()})
}

// A permit that is kept stays kept, whatever late request about its hold comes.
// A copy of a request that was granted does not change the minimum hold.
func TestSemaphoreScriptLateCopies(t *testing.T) {
	v := PermitNamed("c1", 1, "f", 3, Keep)
	for name, late := range map[string]script.Call{"try": v.Try(), "enqueue": v.Enqueue()} {
		t.Run(name, func(t *testing.T) {
			b := NewHeld(t, server, v)
			require.Equal(t, "2", b.Code(v.Release()))
			b.Steps(
				Step("late", late, "1", []string{v.Kept(), v.Reads()}),
				Step("forced", frees(v), "0", []string{v.Kept()}),
				Step("late", late, "1", []string{v.Kept(), v.Reads()}),
				Step("its cancel", v.Cancel(1), "1", []string{v.Kept()}),
				Step("forced", frees(v), "0", []string{v.Kept()}),
			)
		})
	}
	b := NewHeld(t, server, v)
	number := func() string {
		score, err := redis.String(b.Do("ZSCORE", b.Key, "#"+v.Hold()), nil)
		require.NoError(t, err)
		return score
	}
	first := number()
	b.RequireDone(v.Try(), v.Enqueue(), v.Claim(), v.Renew(LongLease))
	require.Equal(t, first, number(), "the minimum hold counts from the first grant")
}
