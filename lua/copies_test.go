package lua_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/scripttest"
)

var (
	heldGiven   = scripttest.AndThen(scripttest.HeldOnce, scripttest.TransferOf(scripttest.Hold1, scripttest.Hold2, scripttest.Lease))
	heldGiven2  = scripttest.AndThen(heldGiven, script.Call{Script: script.ReentrantEnter, Args: []any{scripttest.OwnerNext, scripttest.Hold2, 2, 2, scripttest.Lease.Milliseconds()}})
	heldGivenOn = scripttest.AndThen(heldGiven, script.Call{
		Script: script.ReentrantTransfer, Args: []any{scripttest.Hold2, scripttest.OwnerNext, scripttest.Hold3, scripttest.OwnerUs, scripttest.Lease.Milliseconds(), "info"},
	})
)

// A late copy changes nothing, except that it may extend the lease of the hold
// that it belongs to. The results are one for each state: + extends, = finds
// its hold and changes nothing, 0 does not find its hold, k finds it kept. In a
// state with a dot the call would not be late.
func TestLateCopiesOfScripts(t *testing.T) {
	type late struct {
		name    string
		call    script.Call
		results string
	}
	inner, innerLater := scripttest.ReentrantReleaseOf(scripttest.Hold1, 1, 3, 0), scripttest.ReentrantReleaseOf(scripttest.Hold1, 1, 99, 0)
	for _, kind := range []struct {
		states [][]script.Call
		rows   []late
	}{
		{[][]script.Call{scripttest.PlainHeld, scripttest.PlainNext, scripttest.PlainTook, scripttest.PlainKept, scripttest.NoKey}, []late{
			{"acquire", scripttest.AcquireOf(scripttest.Plain1, "", scripttest.LongLease), "+000."},
			{"acquire, shorter", scripttest.AcquireOf(scripttest.Plain1, "", time.Second), "=000."},
			{"acquire after an earlier value", scripttest.AcquireOf(scripttest.Plain1, scripttest.Plain2, scripttest.LongLease), "+.00."},
			{"acquire, its earlier value is over", scripttest.AcquireOf(scripttest.Plain2, scripttest.Plain1, scripttest.LongLease), ".+00."},
			{"acquire by another call", scripttest.AcquireOf(scripttest.Plain3, scripttest.Plain1, scripttest.LongLease), ".0+0."},
			{"renew", scripttest.RenewOf(scripttest.Plain1, scripttest.LongLease), "+0000"},
			{"renew, shorter", scripttest.RenewOf(scripttest.Plain1, time.Second), "=0000"},
			{"release", scripttest.ReleaseOf(scripttest.Plain1, 0), ".00.0"},
			{"release and keep", scripttest.ReleaseOf(scripttest.Plain1, time.Second), ".00k0"},
			{"release and keep longer", scripttest.ReleaseOf(scripttest.Plain1, scripttest.LongLease), ".00k0"},
		}},
		{[][]script.Call{
			scripttest.HeldOnce, scripttest.HeldTwice, scripttest.HeldThree, scripttest.HeldBack, scripttest.HeldAgain, // our hold
			scripttest.HeldNext, scripttest.HeldNext2, scripttest.HeldOther, scripttest.HeldKept, scripttest.NoKey, // it is over
			heldGiven, heldGiven2, heldGivenOn, // transferred
		}, []late{
			{"acquire", scripttest.ReentrantAcquireOf(scripttest.OwnerUs, scripttest.Hold1, scripttest.LongLease), "+++++" + "0000." + "000"},
			{"acquire, shorter", scripttest.ReentrantAcquireOf(scripttest.OwnerUs, scripttest.Hold1, time.Second), "=====" + "0000." + "000"},
			{"enter", scripttest.EnterOf(scripttest.Hold1, 2, 2, scripttest.LongLease), ".+===" + "00000" + "000"},
			{"enter, shorter", scripttest.EnterOf(scripttest.Hold1, 2, 2, time.Second), ".====" + "00000" + "000"},
			{"enter with a high number", scripttest.EnterOf(scripttest.Hold1, 2, 99, scripttest.LongLease), "....." + "00000" + "000"},
			{"renew", scripttest.ReentrantRenewOf(scripttest.Hold1, scripttest.LongLease), "+++++" + "00000" + "000"},
			{"renew, shorter", scripttest.ReentrantRenewOf(scripttest.Hold1, time.Second), "=====" + "00000" + "000"},
			{"inner release", inner, "..===" + "000k0" + "000"},
			{"inner release with a high number", innerLater, "....." + "000k0" + "000"},
			{"last release", scripttest.ReentrantReleaseOf(scripttest.Hold1, 0, 2, 0), "....." + "000.0" + "000"},
			{"last release with a high number", scripttest.ReentrantReleaseOf(scripttest.Hold1, 0, 99, 0), "....." + "000.0" + "000"},
			{"last release and keep", scripttest.ReentrantReleaseOf(scripttest.Hold1, 0, 2, time.Second), "....." + "000k0" + "000"},
			{"last release and keep longer", scripttest.ReentrantReleaseOf(scripttest.Hold1, 0, 2, scripttest.LongLease), "....." + "000k0" + "000"},
			{"transfer", scripttest.TransferOf(scripttest.Hold1, scripttest.Hold2, scripttest.LongLease), "....." + "..000" + "++0"},
			{"transfer, shorter", scripttest.TransferOf(scripttest.Hold1, scripttest.Hold2, time.Second), "....." + "..000" + "==0"},
			{"transfer to another hold", scripttest.TransferOf(scripttest.Hold1, "h9", scripttest.LongLease), "....." + "00000" + "000"},
			{"release of either", scripttest.ReleaseOfEither(scripttest.Hold1, scripttest.Hold2), "....." + "..0.0" + "..0"},
		}},
	} {
		for _, row := range kind.rows {
			for i, state := range kind.states {
				result := row.results[i]
				if result == '.' {
					continue
				}
				t.Run(fmt.Sprint(row.name, " ", i), func(t *testing.T) {
					b := scripttest.NewBench(t, server)
					b.SetUp(state)
					want := b.State()
					if result == '+' {
						want.TTL = scripttest.LongLease
					}
					for range 2 {
						require.Equal(t, map[byte]int64{'+': script.Ours, '=': script.Ours, '0': script.Other, 'k': script.Kept}[result], b.Run(row.call))
						scripttest.RequireSame(t, want, b.State())
					}
				})
			}
		}
	}
}

// A late copy, or a renewal, that finds its work done, and a longer lease than
// it asks for, writes all the same. A WAIT that follows it asks the replicas
// for what was written over its connection.
func TestLateCopiesWrite(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	reads, permit := scripttest.WaitNamed("c1", 1, "sf"), scripttest.PermitNamed("c1", 1, "f", 2, 0)
	written := func() int64 { return s.Info(t, "persistence", "rdb_changes_since_last_save") }
	for name, tt := range map[string]struct {
		state []script.Call
		late  script.Call
	}{
		"acquire":           {scripttest.PlainHeld, scripttest.AcquireOf(scripttest.Plain1, "", time.Second)},
		"reentrant acquire": {scripttest.HeldOnce, scripttest.ReentrantAcquireOf(scripttest.OwnerUs, scripttest.Hold1, time.Second)},
		"enter":             {scripttest.HeldTwice, scripttest.EnterOf(scripttest.Hold1, 2, 2, time.Second)},
		"transfer":          {heldGiven, scripttest.TransferOf(scripttest.Hold1, scripttest.Hold2, time.Second)},
		"renew":             {scripttest.PlainHeld, scripttest.RenewOf(scripttest.Plain1, time.Second)},
		"reentrant renew":   {scripttest.HeldOnce, scripttest.ReentrantRenewOf(scripttest.Hold1, time.Second)},
		"read/write renew":  {[]script.Call{reads.Try()}, reads.Renew(time.Second)},
		"semaphore renew":   {[]script.Call{permit.Try()}, permit.Renew(time.Second)},
	} {
		t.Run(name, func(t *testing.T) {
			b := scripttest.NewBench(t, s)
			b.SetUp(tt.state)
			before := written()
			require.Equal(t, int64(script.Ours), b.Run(tt.late))
			require.Greater(t, written(), before)
		})
	}
	t.Run("several keys", func(t *testing.T) {
		b := scripttest.NewMulti(t, s, 2)
		b.Put(scripttest.Plain1, scripttest.Plain1)
		before := written()
		require.Equal(t, []int64{script.Ours}, b.Acquire(scripttest.Plain1, time.Second, 0, ""))
		require.Equal(t, before+2, written())
	})
}

// A script that is sent twice does what it does once. A transfer replaces all
// that is of the hold, whatever its levels and its expiry were.
func TestScriptsSentTwice(t *testing.T) {
	transfer, either := scripttest.TransferOf(scripttest.Hold1, scripttest.Hold2, scripttest.LongLease), scripttest.ReleaseOfEither(scripttest.Hold1, scripttest.Hold2)
	toItself := scripttest.TransferOf(scripttest.Hold1, scripttest.Hold2, scripttest.LongLease)
	toItself.Args[3] = scripttest.OwnerUs
	next := func(hold string) map[string]string { return scripttest.Given(scripttest.OwnerNext, hold, "next") }
	hash := func(hold string, count, seq string) map[string]string {
		fields := map[string]string{"hold": hold, "seq": "#" + seq, "info": "info"}
		if count != "" {
			fields[scripttest.OwnerUs] = count
		}
		return fields
	}
	for _, tt := range []struct {
		name    string
		state   []script.Call
		script  script.Call
		answers [2]int64
		content any
		ttl     time.Duration
	}{
		{"acquire", scripttest.NoKey, scripttest.AcquireOf(scripttest.Plain1, "", scripttest.LongLease), [2]int64{1, 1}, scripttest.Plain1, scripttest.LongLease},
		{"acquire with earlier value", scripttest.PlainHeld, scripttest.AcquireOf(scripttest.Plain2, scripttest.Plain1, scripttest.LongLease), [2]int64{1, 1}, scripttest.Plain2, scripttest.LongLease},
		{"renew", scripttest.PlainHeld, scripttest.RenewOf(scripttest.Plain1, scripttest.LongLease), [2]int64{1, 1}, scripttest.Plain1, scripttest.LongLease},
		{"release", scripttest.PlainHeld, scripttest.ReleaseOf(scripttest.Plain1, 0), [2]int64{1, 0}, nil, scripttest.Absent},
		{"release and keep", scripttest.PlainHeld, scripttest.ReleaseOf(scripttest.Plain1, scripttest.Keep), [2]int64{1, 2}, lockspec.KeptValue(scripttest.Plain1), scripttest.Keep},
		{"release, kept until now", scripttest.PlainKept, scripttest.ReleaseOf(scripttest.Plain1, 0), [2]int64{2, 0}, nil, scripttest.Absent},
		{"reentrant acquire", scripttest.NoKey, scripttest.ReentrantAcquireOf(scripttest.OwnerUs, scripttest.Hold1, scripttest.LongLease), [2]int64{1, 1}, hash(scripttest.Hold1, "1", "1"), scripttest.LongLease},
		{"enter", scripttest.HeldOnce, scripttest.EnterOf(scripttest.Hold1, 2, 2, scripttest.LongLease), [2]int64{1, 1}, hash(scripttest.Hold1, "2", "2"), scripttest.LongLease},
		{"enter, third level", scripttest.HeldTwice, scripttest.EnterOf(scripttest.Hold1, 3, 3, scripttest.LongLease), [2]int64{1, 1}, hash(scripttest.Hold1, "3", "3"), scripttest.LongLease},
		{"reentrant renew", scripttest.HeldTwice, scripttest.ReentrantRenewOf(scripttest.Hold1, scripttest.LongLease), [2]int64{1, 1}, hash(scripttest.Hold1, "2", "2"), scripttest.LongLease},
		{"inner release", scripttest.HeldTwice, scripttest.ReentrantReleaseOf(scripttest.Hold1, 1, 3, 0), [2]int64{1, 1}, hash(scripttest.Hold1, "1", "3"), scripttest.Lease},
		{"last release", scripttest.HeldOnce, scripttest.ReentrantReleaseOf(scripttest.Hold1, 0, 2, 0), [2]int64{1, 0}, nil, scripttest.Absent},
		{"last release overtakes the inner one", scripttest.HeldTwice, scripttest.ReentrantReleaseOf(scripttest.Hold1, 0, 4, 0), [2]int64{1, 0}, nil, scripttest.Absent},
		{"last release and keep", scripttest.HeldOnce, scripttest.ReentrantReleaseOf(scripttest.Hold1, 0, 2, scripttest.Keep), [2]int64{1, 2}, hash("kept:"+scripttest.Hold1, "", "1"), scripttest.Keep},
		{"transfer, one level", scripttest.HeldOnce, transfer, [2]int64{1, 1}, next(scripttest.Hold2), scripttest.LongLease},
		{"transfer, three levels", scripttest.HeldThree, transfer, [2]int64{1, 1}, next(scripttest.Hold2), scripttest.LongLease},
		{"transfer, a shorter lease", scripttest.HeldOnce, scripttest.TransferOf(scripttest.Hold1, scripttest.Hold2, scripttest.Keep), [2]int64{1, 1}, next(scripttest.Hold2), scripttest.Keep},
		{"transfer, transferred before", heldGivenOn, scripttest.TransferOf(scripttest.Hold3, "h9", scripttest.LongLease), [2]int64{1, 1}, next("h9"), scripttest.LongLease},
		{"transfer to the same owner", scripttest.HeldTwice, toItself, [2]int64{1, 1}, scripttest.Given(scripttest.OwnerUs, scripttest.Hold2, "next"), scripttest.LongLease},
		{"release of either, before the transfer", scripttest.HeldOnce, either, [2]int64{1, 0}, nil, scripttest.Absent},
		{"release of either, after it", heldGiven, either, [2]int64{1, 0}, nil, scripttest.Absent},
		{"release of either, after it, two levels", heldGiven2, either, [2]int64{1, 0}, nil, scripttest.Absent},
		{"last release, kept until now", scripttest.HeldKept, scripttest.ReentrantReleaseOf(scripttest.Hold1, 0, 2, 0), [2]int64{2, 0}, nil, scripttest.Absent},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := scripttest.NewBench(t, server)
			b.SetUp(tt.state)
			for _, answer := range tt.answers {
				require.Equal(t, answer, b.Run(tt.script))
				scripttest.RequireSame(t, scripttest.KeyState{Content: tt.content, TTL: tt.ttl}, b.State())
			}
		})
	}
}

// A script of a lock with a queue that is sent twice does what it does once.
func TestQueueScriptsSentTwice(t *testing.T) {
	for _, letters := range allLetters {
		w, other, holder := scripttest.WaitNamed("c1", 1, letters), scripttest.WaitNamed("c2", 1, letters), scripttest.WaitNamed("c9", 1, letters)
		states := map[string]struct {
			held string
			line []scripttest.Wait
		}{
			"free":                    {},
			"free, it waits":          {"", []scripttest.Wait{w}},
			"free, it waits second":   {"", []scripttest.Wait{other, w, scripttest.WaitNamed("c3", 1, letters)}},
			"held":                    {holder.Held(), nil},
			"held, it waits":          {holder.Held(), []scripttest.Wait{other, w}},
			"held by it":              {w.Held(), []scripttest.Wait{other}},
			"reserved for it":         {w.Reserved(), []scripttest.Wait{other}},
			"reserved for the other":  {other.Reserved(), []scripttest.Wait{w}},
			"of another kind or mode": {"r:c9:1", nil},
		}
		calls := map[string]script.Call{
			"try": w.Try(), "enqueue": w.Enqueue(), "enqueue again": w.EnqueueAgain("77", ""), "enqueue after an earlier hold": w.EnqueueAgain("", holder.Hold()),
			"claim": w.Claim(), "cancel": w.Cancel(0), "cancel with the hold": w.Cancel(1), "poll": scripttest.PollAs("c1", string(w), 77), "release": holder.Release(),
		}
		for state, tt := range states {
			for name, call := range calls {
				t.Run(fmt.Sprint(letters, "/", state, "/", name), func(t *testing.T) {
					b := scripttest.NewQueue(t, server)
					b.Store(tt.held)
					b.Queued(tt.line...)
					first := b.Ask(call)
					once := b.All()
					ttl := b.State().TTL
					second := b.Ask(call)
					if state == "reserved for it" && strings.HasPrefix(name, "cancel") {
						require.Equal(t, other.Reserved(), once.Lock)
					}
					require.Equal(t, once, b.All())
					require.InDelta(t, ttl, b.State().TTL, float64(scripttest.Slack), "expiry")
					if name == "release" { // the second copy finds nothing of the first
						require.Contains(t, []string{first[0], "0", "-1"}, second[0])
						return
					}
					if first[0] != "3" { // hands off a free lock
						require.Equal(t, first[0], second[0])
					}
				})
			}
		}
	}
}

// Numbers beyond 9 are not compared as text.
func TestChangesAreNumbered(t *testing.T) {
	b := scripttest.NewBench(t, server)
	b.SetUp(scripttest.HeldTwice)
	for seq := 3; seq <= 200; seq++ {
		require.Equal(t, int64(script.Ours), b.Run(scripttest.EnterOf(scripttest.Hold1, seq, seq, scripttest.Lease)))
		require.Equal(t, int64(script.Ours), b.Run(scripttest.EnterOf(scripttest.Hold1, 2, seq-1, scripttest.Lease)), "the change before")
		require.Equal(t, int64(script.Ours), b.Run(scripttest.ReentrantReleaseOf(scripttest.Hold1, 1, seq-1, 0)), "the change before")
		require.Equal(t, fmt.Sprint(seq), b.State().Content.(map[string]string)[scripttest.OwnerUs])
	}
}

// A transfer that is refused leaves at least what a release of either ends. The
// key is never without an expiry.
func TestTransferScriptRefused(t *testing.T) {
	s := redistest.Start(t)
	transfer := scripttest.TransferOf(scripttest.Hold1, scripttest.Hold2, scripttest.LongLease)
	for denied, same := range map[string]bool{"-hmget": true, "-hset": true, "-hdel": false, "-pexpire": false, "": true} {
		t.Run(denied, func(t *testing.T) {
			b := scripttest.NewQueue(t, s)
			require.Equal(t, "1", b.Code(scripttest.HeldOnce[0]))
			before := b.State()
			if denied == "" {
				fillMemory(t, s)
				b.RequireError(transfer, "OOM")
			} else {
				b.Deny(denied)
				b.RequireDenied(transfer)
			}
			if b.Less = nil; same {
				scripttest.RequireSame(t, before, b.State())
			}
			require.Equal(t, "1", b.Code(scripttest.ReleaseOfEither(scripttest.Hold1, scripttest.Hold2)))
			require.Empty(t, b.Lock())
		})
	}
	b := scripttest.NewQueue(t, s)
	require.Equal(t, "1", b.Code(scripttest.HeldOnce[0]))
	before := b.State()
	b.Do("LPUSH", b.CounterKey(), "something else")
	b.Do("PEXPIRE", b.CounterKey(), 60_000)
	b.RequireError(scripttest.Fenced(transfer), "WRONGTYPE")
	scripttest.RequireSame(t, before, b.State())
}
