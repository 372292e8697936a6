package lua_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/redistest"
)

var (
	heldGiven  = AndThen(HeldOnce, TransferOf(Hold1, Hold2, Lease))
	heldGiven2 = AndThen(heldGiven,
		script.Call{Script: script.ReentrantEnter, Args: []any{OwnerNext, Hold2, 2, 2, Lease.Milliseconds()}})
	heldGivenOn = AndThen(heldGiven, script.Call{
		Script: script.ReentrantTransfer, Args: []any{Hold2, OwnerNext, Hold3, OwnerUs, Lease.Milliseconds(), "info"},
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
	inner, innerLater := ReentrantReleaseOf(Hold1, 1, 3, 0), ReentrantReleaseOf(Hold1, 1, 99, 0)
	for _, kind := range []struct {
		states [][]script.Call
		rows   []late
	}{
		{[][]script.Call{PlainHeld, PlainNext, PlainTook, PlainKept, NoKey}, []late{
			{"acquire", AcquireOf(Plain1, "", LongLease), "+00k."},
			{"acquire, shorter", AcquireOf(Plain1, "", time.Second), "=00k."},
			{"acquire after an earlier value", AcquireOf(Plain1, Plain2, LongLease), "+.0k."},
			{"acquire, its earlier value is over", AcquireOf(Plain2, Plain1, LongLease), ".+0k."},
			{"acquire by another call", AcquireOf(Plain3, Plain1, LongLease), ".0+k."},
			{"renew", RenewOf(Plain1, LongLease), "+0000"},
			{"renew, shorter", RenewOf(Plain1, time.Second), "=0000"},
			{"release", ReleaseOf(Plain1, 0), ".00.0"},
			{"release and keep", ReleaseOf(Plain1, time.Second), ".00k0"},
			{"release and keep longer", ReleaseOf(Plain1, LongLease), ".00k0"},
		}},
		{[][]script.Call{
			HeldOnce, HeldTwice, HeldThree, HeldBack, HeldAgain, // our hold
			HeldNext, HeldNext2, HeldOther, HeldKept, NoKey, // it is over
			heldGiven, heldGiven2, heldGivenOn, // transferred
		}, []late{
			{"acquire", ReentrantAcquireOf(OwnerUs, Hold1, LongLease), "+++++" + "000k." + "000"},
			{"acquire, shorter", ReentrantAcquireOf(OwnerUs, Hold1, time.Second), "=====" + "000k." + "000"},
			{"enter", EnterOf(Hold1, 2, 2, LongLease), ".+===" + "00000" + "000"},
			{"enter, shorter", EnterOf(Hold1, 2, 2, time.Second), ".====" + "00000" + "000"},
			{"enter with a high number", EnterOf(Hold1, 2, 99, LongLease), "....." + "00000" + "000"},
			{"renew", ReentrantRenewOf(Hold1, LongLease), "+++++" + "00000" + "000"},
			{"renew, shorter", ReentrantRenewOf(Hold1, time.Second), "=====" + "00000" + "000"},
			{"inner release", inner, "..===" + "000k0" + "000"},
			{"inner release with a high number", innerLater, "....." + "000k0" + "000"},
			{"last release", ReentrantReleaseOf(Hold1, 0, 2, 0), "....." + "000.0" + "000"},
			{"last release with a high number", ReentrantReleaseOf(Hold1, 0, 99, 0), "....." + "000.0" + "000"},
			{"last release and keep", ReentrantReleaseOf(Hold1, 0, 2, time.Second), "....." + "000k0" + "000"},
			{"last release and keep longer", ReentrantReleaseOf(Hold1, 0, 2, LongLease), "....." + "000k0" + "000"},
			{"transfer", TransferOf(Hold1, Hold2, LongLease), "....." + "..000" + "++0"},
			{"transfer, shorter", TransferOf(Hold1, Hold2, time.Second), "....." + "..000" + "==0"},
			{"transfer to another hold", TransferOf(Hold1, "h9", LongLease), "....." + "00000" + "000"},
			{"release of either", ReleaseOfEither(Hold1, Hold2), "....." + "..0.0" + "..0"},
		}},
	} {
		for _, row := range kind.rows {
			for i, state := range kind.states {
				result := row.results[i]
				if result == '.' {
					continue
				}
				t.Run(fmt.Sprint(row.name, " ", i), func(t *testing.T) {
					b := NewBench(t, server)
					b.SetUp(state)
					want := b.State()
					if result == '+' {
						want.TTL = LongLease
					}
					for range 2 {
						require.Equal(t, map[byte]int64{'+': script.OK, '=': script.OK, '0': script.NotHeld, 'k': script.Kept}[result],
							b.Run(row.call))
						RequireSame(t, want, b.State())
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
	reads, permit := WaitNamed("c1", 1, "sf"), PermitNamed("c1", 1, "f", 2, 0)
	written := func() int64 { return s.Info(t, "persistence", "rdb_changes_since_last_save") }
	for name, tt := range map[string]struct {
		state []script.Call
		late  script.Call
	}{
		"acquire":           {PlainHeld, AcquireOf(Plain1, "", time.Second)},
		"reentrant acquire": {HeldOnce, ReentrantAcquireOf(OwnerUs, Hold1, time.Second)},
		"enter":             {HeldTwice, EnterOf(Hold1, 2, 2, time.Second)},
		"transfer":          {heldGiven, TransferOf(Hold1, Hold2, time.Second)},
		"renew":             {PlainHeld, RenewOf(Plain1, time.Second)},
		"reentrant renew":   {HeldOnce, ReentrantRenewOf(Hold1, time.Second)},
		"read/write renew":  {[]script.Call{reads.Try()}, reads.Renew(time.Second)},
		"semaphore renew":   {[]script.Call{permit.Try()}, permit.Renew(time.Second)},
	} {
		t.Run(name, func(t *testing.T) {
			b := NewBench(t, s)
			b.SetUp(tt.state)
			before := written()
			require.Equal(t, int64(script.OK), b.Run(tt.late))
			require.Greater(t, written(), before)
		})
	}
	t.Run("several keys", func(t *testing.T) {
		b := NewMulti(t, s, 2)
		b.Put(Plain1, Plain1)
		before := written()
		require.Equal(t, []int64{script.OK}, b.Acquire(Plain1, time.Second, 0, ""))
		require.Equal(t, before+2, written())
	})
}

// A script that is sent twice does what it does once. A transfer replaces all
// that is of the hold, whatever its levels and its expiry were.
func TestScriptsSentTwice(t *testing.T) {
	transfer, either := TransferOf(Hold1, Hold2, LongLease), ReleaseOfEither(Hold1, Hold2)
	toItself := TransferOf(Hold1, Hold2, LongLease)
	toItself.Args[3] = OwnerUs
	next := func(hold string) map[string]string { return Given(OwnerNext, hold, "next") }
	hash := func(hold string, count, seq string) map[string]string {
		fields := map[string]string{"hold": hold, "seq": "#" + seq, "info": "info"}
		if count != "" {
			fields[OwnerUs] = count
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
		{"acquire", NoKey, AcquireOf(Plain1, "", LongLease), [2]int64{1, 1}, Plain1, LongLease},
		{"acquire with earlier value", PlainHeld, AcquireOf(Plain2, Plain1, LongLease), [2]int64{1, 1}, Plain2, LongLease},
		{"renew", PlainHeld, RenewOf(Plain1, LongLease), [2]int64{1, 1}, Plain1, LongLease},
		{"release", PlainHeld, ReleaseOf(Plain1, 0), [2]int64{1, 0}, nil, locktest.Absent},
		{"release and keep", PlainHeld, ReleaseOf(Plain1, Keep), [2]int64{1, 2}, lockspec.KeptValue(Plain1), Keep},
		{"release, kept until now", PlainKept, ReleaseOf(Plain1, 0), [2]int64{2, 0}, nil, locktest.Absent},
		{"reentrant acquire", NoKey, ReentrantAcquireOf(OwnerUs, Hold1, LongLease), [2]int64{
			1, 1,
		}, hash(Hold1, "1", "1"), LongLease},
		{"enter", HeldOnce, EnterOf(Hold1, 2, 2, LongLease), [2]int64{1, 1}, hash(Hold1, "2", "2"), LongLease},
		{"enter, third level", HeldTwice, EnterOf(Hold1, 3, 3, LongLease), [2]int64{1, 1}, hash(Hold1, "3", "3"), LongLease},
		{"reentrant renew", HeldTwice, ReentrantRenewOf(Hold1, LongLease), [2]int64{1, 1}, hash(Hold1, "2", "2"), LongLease},
		{"inner release", HeldTwice, ReentrantReleaseOf(Hold1, 1, 3, 0), [2]int64{1, 1}, hash(Hold1, "1", "3"), Lease},
		{"last release", HeldOnce, ReentrantReleaseOf(Hold1, 0, 2, 0), [2]int64{1, 0}, nil, locktest.Absent},
		{"last release overtakes the inner one", HeldTwice, ReentrantReleaseOf(Hold1, 0, 4, 0), [2]int64{
			1, 0,
		}, nil, locktest.Absent},
		{"last release and keep", HeldOnce, ReentrantReleaseOf(Hold1, 0, 2, Keep), [2]int64{1, 2}, hash("kept:"+
			Hold1, "", "1"), Keep},
		{"transfer, one level", HeldOnce, transfer, [2]int64{1, 1}, next(Hold2), LongLease},
		{"transfer, three levels", HeldThree, transfer, [2]int64{1, 1}, next(Hold2), LongLease},
		{"transfer, a shorter lease", HeldOnce, TransferOf(Hold1, Hold2, Keep), [2]int64{1, 1}, next(Hold2), Keep},
		{"transfer, transferred before", heldGivenOn, TransferOf(Hold3, "h9", LongLease), [2]int64{
			1, 1,
		}, next("h9"), LongLease},
		{"transfer to the same owner", HeldTwice, toItself, [2]int64{1, 1}, Given(OwnerUs, Hold2, "next"), LongLease},
		{"release of either, before the transfer", HeldOnce, either, [2]int64{1, 0}, nil, locktest.Absent},
		{"release of either, after it", heldGiven, either, [2]int64{1, 0}, nil, locktest.Absent},
		{"release of either, after it, two levels", heldGiven2, either, [2]int64{1, 0}, nil, locktest.Absent},
		{"last release, kept until now", HeldKept, ReentrantReleaseOf(Hold1, 0, 2, 0), [2]int64{2, 0}, nil, locktest.Absent},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := NewBench(t, server)
			b.SetUp(tt.state)
			for _, answer := range tt.answers {
				require.Equal(t, answer, b.Run(tt.script))
				RequireSame(t, locktest.KeyState{Content: tt.content, TTL: tt.ttl}, b.State())
			}
		})
	}
}

// A script of a lock with a queue that is sent twice does what it does once.
func TestQueueScriptsSentTwice(t *testing.T) {
	for _, letters := range allLetters {
		w, other, holder := WaitNamed("c1", 1, letters), WaitNamed("c2", 1, letters), WaitNamed("c9", 1, letters)
		states := map[string]struct {
			held string
			line []Wait
		}{
			"free":                   {},
			"free, it waits":         {"", []Wait{w}},
			"free, it waits second":  {"", []Wait{other, w, WaitNamed("c3", 1, letters)}},
			"held":                   {holder.Held(), nil},
			"held, it waits":         {holder.Held(), []Wait{other, w}},
			"held by it":             {w.Held(), []Wait{other}},
			"reserved for it":        {w.Reserved(), []Wait{other}},
			"reserved for the other": {other.Reserved(), []Wait{w}},
			"of another kind":        {"r:c9:1", nil},
		}
		calls := map[string]script.Call{
			"try": w.Try(), "enqueue": w.Enqueue(),
			"enqueue again": w.EnqueueAgain("77", ""), "enqueue after an earlier hold": w.EnqueueAgain("", holder.Hold()),
			"claim": w.Claim(), "cancel": w.Cancel(0), "cancel with the hold": w.Cancel(1), "poll": PollAs("c1", string(w), 77),
			"release": holder.Release(),
		}
		for state, tt := range states {
			for name, call := range calls {
				t.Run(fmt.Sprint(letters, "/", state, "/", name), func(t *testing.T) {
					b := NewQueue(t, server)
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
					require.InDelta(t, ttl, b.State().TTL, float64(Slack), "expiry")
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
	b := NewBench(t, server)
	b.SetUp(HeldTwice)
	for seq := 3; seq <= 200; seq++ {
		require.Equal(t, int64(script.OK), b.Run(EnterOf(Hold1, seq, seq, Lease)))
		require.Equal(t, int64(script.OK), b.Run(EnterOf(Hold1, 2, seq-1, Lease)), "the change before")
		require.Equal(t, int64(script.OK), b.Run(ReentrantReleaseOf(Hold1, 1, seq-1, 0)), "the change before")
		require.Equal(t, fmt.Sprint(seq), b.State().Content.(map[string]string)[OwnerUs])
	}
}

// A transfer that is refused leaves at least what a release of either ends. The
// key is never without an expiry.
func TestTransferScriptRefused(t *testing.T) {
	s := redistest.Start(t)
	transfer := TransferOf(Hold1, Hold2, LongLease)
	for denied, same := range map[string]bool{"-hmget": true, "-hset": true, "-hdel": false, "-pexpire": false, "": true} {
		t.Run(denied, func(t *testing.T) {
			b := NewQueue(t, s)
			require.Equal(t, "1", b.Code(HeldOnce[0]))
			before := b.State()
			if denied == "" {
				fillMemory(t, s)
				b.RequireError(transfer, "OOM")
			} else {
				b.Deny(denied)
				b.RequireDenied(transfer)
			}
			if b.Less = nil; same {
				RequireSame(t, before, b.State())
			}
			require.Equal(t, "1", b.Code(ReleaseOfEither(Hold1, Hold2)))
			require.Empty(t, b.Lock())
		})
	}
	b := NewQueue(t, s)
	require.Equal(t, "1", b.Code(HeldOnce[0]))
	before := b.State()
	b.Do("LPUSH", b.CounterKey(), "something else")
	b.Do("PEXPIRE", b.CounterKey(), 60_000)
	b.RequireError(Fenced(transfer), "WRONGTYPE")
	RequireSame(t, before, b.State())
}
