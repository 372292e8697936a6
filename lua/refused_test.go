package lua_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/script"
)

// A bad argument is refused before anything is written, on a lock that is free,
// held, and reserved.
func TestScriptsRefuseBadArguments(t *testing.T) {
	w, other, writes := WaitNamed("c1", 1, "pf"), WaitNamed("c2", 1, "pf"), WaitNamed("c1", 1, "wf")
	permit := PermitNamed("c1", 1, "f", 2, 0)
	var (
		numbers = []any{
			"", "-1", "1.5", "007000", "1e3", "nan", "inf", "0x10", " 20", "20 ",
			"20\n", "20\x00", strings.Repeat("9", 16), strings.Repeat("9", 20), "text",
		}
		over0   = append([]any{"0"}, numbers...)
		over1   = append([]any{"1"}, over0...)
		over9   = append([]any{"9"}, over1...)
		empty   = []any{""}
		tickets = []any{"x", "-1", "1.5", " 1", "1e3"}
		waits   = []any{
			"", "text", "c1", "c1:1", "c1:1:pf", "c1:1:pf:", "c1:1:pf:0", "c1:1:pf:-5", "c1:1:pf:5x", "c1:x:pf:5", "c1:1:xf:5",
			"c1:1:pp:5", ":1:pf:5", "c1:1:pf:5:5", "c1:1:pf:5:", "c1:1:pf:5aaaaaaaaaaaaaaaaa", "c1:1:pf:5:0123456789abcdeg",
		}
		rwWaits    = []any{"", "c1", "c1:1", "c1:x:wf:5", "c1:1:pf:5", "c1:1:wx:5", "c1:1:wf:0", ":1:wf:5"}
		badPermits = []any{
			"", "c1:1:cf:5", "c1:1:cf:5:2", "c1:1:cf:5:0:0", "c1:1:cf:0:2:0", "c1:1:cf:5:2:-1",
			"c1:1:cf:5:2:0:0", "c1:1:sf:5:2:0", "c1:x:cf:5:2:0", ":1:cf:5:2:0",
		}
		flags = []any{"", "2", "-1", "01", "x"}
	)
	tooMany := []any{"c1", 1000}
	for i := range 65 {
		tooMany = append(tooMany, fmt.Sprintf("c1:%d:wf:5", i+1), 5)
	}
	type argument = map[int][]any
	for name, tt := range map[string]struct {
		call  script.Call
		state []script.Call
		bad   argument
	}{
		"acquire": {AcquireOf(Plain1, Plain2, LongLease), PlainHeld, argument{0: empty, 2: over9}},
		"renew":   {RenewOf(Plain1, LongLease), PlainHeld, argument{0: empty, 1: over9}},
		"release": {ReleaseOf(Plain1, LongLease), PlainHeld, argument{0: empty, 1: numbers, 2: empty}},
		"reentrant_acquire": {
			ReentrantAcquireOf(OwnerUs, Hold1, LongLease), HeldOnce, argument{0: empty, 1: empty, 2: over9},
		},
		"reentrant_enter": {
			EnterOf(Hold1, 2, 2, LongLease), HeldOnce, argument{0: empty, 1: empty, 2: over1, 3: over1, 4: over9},
		},
		"reentrant_renew": {ReentrantRenewOf(Hold1, LongLease), HeldOnce, argument{0: empty, 1: over9}},
		"reentrant_release": {
			ReentrantReleaseOf(Hold1, 0, 2, LongLease), HeldOnce, argument{0: empty, 1: empty, 2: numbers, 3: over1, 4: numbers},
		},
		"its last release": {
			ReentrantReleaseOf(Hold1, 0, 2, 0), HeldOnce, argument{0: empty, 1: empty, 2: numbers, 3: over1, 4: numbers},
		},
		"reentrant_transfer": {
			TransferOf(Hold1, Hold2, LongLease), HeldOnce, argument{0: empty, 1: empty, 2: empty, 3: empty, 4: over9},
		},
		"try": {w.Try(), []script.Call{w.Try()}, argument{0: waits, 1: over9, 2: empty}},
		"enqueue": {
			w.EnqueueAgain("5", ""), []script.Call{w.Try()}, argument{0: waits, 1: over0, 2: tickets, 4: over9, 5: empty},
		},
		"enqueue, limited": {w.EnqueueLimited("", 2), nil, argument{7: over0}},
		"claim":            {w.Claim(), []script.Call{w.Try()}, argument{0: waits, 1: over9, 2: empty}},
		"cancel":           {w.Cancel(1), []script.Call{w.Try()}, argument{0: waits[1:], 1: flags}},
		"poll": {PollAs("c1", string(w), 5), nil, argument{
			0: {"", "c2", "c"}, 1: over0, 2: {"", "c2:1:pf:5", "c11:1:pf:5", "c1"}, 3: append(tickets, ""),
		}},
		"poll, too many waits": {script.Call{Script: script.Poll, Args: tooMany}, nil, argument{1: {1000}}},
		"rw_try":               {writes.Try(), []script.Call{writes.Try()}, argument{0: rwWaits, 1: over9, 2: empty}},
		"rw_enqueue": {writes.Enqueue(), []script.Call{writes.Try()}, argument{
			0: rwWaits, 1: over0, 2: {"-1", "x"}, 3: {"x"}, 4: over9, 5: empty,
		}},
		"rw_enqueue, limited": {writes.EnqueueLimited("", 2), nil, argument{7: over0}},
		"rw_claim":            {writes.Claim(), []script.Call{writes.Try()}, argument{0: rwWaits, 1: over9, 2: empty}},
		"rw_cancel":           {writes.Cancel(1), []script.Call{writes.Try()}, argument{0: rwWaits[1:], 1: flags}},
		"rw_enter": {writes.Enter(1, 1, 2, LongLease), []script.Call{writes.Try()}, argument{
			0: empty, 1: over0, 2: numbers, 3: over1, 4: over9,
		}},
		"rw_renew": {writes.Renew(LongLease), []script.Call{writes.Try()}, argument{0: empty, 1: over9}},
		"rw_release": {
			writes.Release(), []script.Call{writes.Try()}, argument{0: empty, 1: numbers, 2: numbers, 3: over1},
		},
		"rw_poll": {RWPollAs("c1", string(writes), 5), nil, argument{
			0: {"", "c2"}, 1: over0, 2: {"", "x", "c2:1:wf:5"}, 3: {"", "x", "-5"},
		}},
		"rw_poll, too many": {script.Call{Script: script.RWPoll, Args: tooMany}, nil, argument{1: {1000}}},
		"semaphore try":     {permit.Try(), []script.Call{permit.Try()}, argument{0: badPermits, 1: over9, 2: empty}},
		"semaphore enqueue": {permit.Enqueue(), []script.Call{permit.Try()}, argument{
			0: badPermits, 1: over0, 2: {"-1", "x"}, 3: {"x"}, 4: over9, 5: empty,
		}},
		"semaphore claim":   {permit.Claim(), []script.Call{permit.Try()}, argument{0: badPermits, 1: over9, 2: empty}},
		"semaphore cancel":  {permit.Cancel(1), []script.Call{permit.Try()}, argument{0: badPermits[1:], 1: flags}},
		"semaphore renew":   {permit.Renew(LongLease), []script.Call{permit.Try()}, argument{0: empty, 1: over9}},
		"semaphore_release": {permit.Release(), []script.Call{permit.Try()}, argument{0: empty}},
		"multi_acquire": {multiOfOne, PlainHeld, argument{
			0: empty, 1: over9, 2: append([]any{2}, numbers...), 4: append([]any{2}, over0...), 6: numbers,
		}},
		"redlock_acquire": {
			redLock, PlainHeld, argument{0: empty, 1: over9, 2: numbers, 3: {"text", ":1:q", "c1:x:q"}, 4: numbers},
		},
		"redlock_unwait": {script.Call{Script: script.RedLockUnwait, Args: []any{"c1:1:q"}}, PlainHeld, argument{
			0: {"", "c1", "c1:1:pu:1250", ":1:q", "c1::q"},
		}},
		"fence_raise": {script.Call{Script: script.FenceRaise, Args: []any{"5"}}, nil, argument{
			0: {"", "0", "x", "-1", "1.5", strings.Repeat("9", 17)},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			b := NewQueue(t, server)
			for state, set := range map[string]func(){
				"free":                func() {},
				"held":                func() { b.SetUp(tt.state) },
				"reserved":            func() { b.Store(w.Reserved()) },
				"reserved for others": func() { b.Store(other.Reserved()) },
			} {
				b.Clear()
				set()
				b.Queued(other)
				before, lock := b.Everything(), b.State()
				refused := func(args []any) { b.RequireError(script.Call{Script: tt.call.Script, Args: args}, "") }
				for i := range tt.call.Args {
					if i != 7 && !strings.Contains(name, "too many") && (i != 2 || !strings.HasSuffix(name, "poll")) {
						refused(tt.call.Args[:i])
					}
					for _, bad := range tt.bad[i] {
						args := slices.Clone(tt.call.Args)
						args[i] = bad
						refused(args)
					}
					require.Equal(t, before, b.Everything(), "%s: argument %d, or %d arguments", state, i+1, i)
				}
				RequireSame(t, lock, b.State())
			}
		})
	}
	b := NewMulti(t, server, 101)
	own := append([]string{b.Key, b.QueueKey(), b.HeartbeatsKey()}, b.Keys[:2]...)
	for what, call := range map[string]script.Call{
		"no value of the lock handed to it": b.CallOf(own, Plain1, 60_000, 1, "", 2, "", 0),
		"it is handed a lock behind":        b.CallOf(own, Plain1, 60_000, 3, Plain2, 2, "", 0),
		"101 locks":                         b.CallOf(b.Keys, Plain1, 60_000, 0, "", 101, "", 0),
		"fewer keys than locks":             b.CallOf(own, Plain1, 60_000, 1, Plain2, 3, "", 0),
		"no keys":                           b.CallOf([]string{}, Plain1, 60_000, 1, Plain2, 2, "", 0),
		"no key ahead":                      b.CallOf(b.Keys[:3], Plain1, 60_000, 1, Plain2, 2, "", 0),
	} {
		b.RequireError(call, "ERR relock: multi_acquire: bad ")
		require.Equal(t, make([]string, 101), b.Holds(), what)
	}
	answer, err := b.Try(b.Keys[:100], Plain1, 60_000, 0, "", 100, "", 0)
	require.NoError(t, err)
	require.Equal(t, []any{int64(1)}, answer)
}

// A key that is something else is left alone. A lock that is kept, or is
// nobody's, is waited for; what another program stored is a conflict.
func TestScriptsLeaveOtherKeysAlone(t *testing.T) {
	plain, reentrant, reads, writes := WaitNamed("c1", 1, "pu"), WaitNamed("c1", 1, "ru"), WaitNamed("c2", 1, "sf"),
		WaitNamed("c1", 1, "wf")
	permit := PermitNamed("c1", 1, "f", 2, 0)
	const foreign = "-1 -1 -1 -1 -1 -1"
	single := []script.Call{
		AcquireOf(Plain1, Plain2, LongLease), AcquireOf(Plain1, "", LongLease), RenewOf(Plain1, LongLease),
		ReleaseOf(Plain1, LongLease), ReleaseOf(Plain1, 0),
		{Script: script.Release, Args: []any{Plain1, 0, ""}},
		{Script: script.Release, Args: []any{"", 0, ""}}, // an empty value is nobody's
		ReentrantAcquireOf(OwnerUs, Hold1, LongLease), EnterOf(Hold1, 2, 2, LongLease), ReentrantRenewOf(Hold1, LongLease),
		ReentrantReleaseOf(Hold1, 0, 2, LongLease), ReentrantReleaseOf(Hold1, 0, 2, 0), ReentrantReleaseOf(Hold1, 1, 2, 0),
		TransferOf(Hold1, Hold2, LongLease), redLock,
	}
	readWrite := []script.Call{
		writes.Try(), reads.Try(), writes.Enqueue(), reads.Claim(), writes.Release(), writes.Leave(1, 0, 2),
		writes.Renew(LongLease), writes.Enter(1, 1, 2, LongLease),
		permit.Try(), permit.Enqueue(), permit.Claim(), permit.Release(), permit.Renew(LongLease),
	}
	cancels := []script.Call{
		permit.Cancel(1), plain.Cancel(0), plain.Cancel(1), reentrant.Cancel(0),
		reentrant.Cancel(1), CancelNobody, writes.Cancel(1),
	}
	for name, tt := range map[string]struct {
		command []any
		codes   string // of try, enqueue and claim for a plain wait and a reentrant one
	}{
		"string":                       {[]any{"SET", "text"}, foreign},
		"empty string":                 {[]any{"SET", ""}, foreign},
		"hash":                         {[]any{"HSET", OwnerUs, 1}, foreign},
		"list":                         {[]any{"RPUSH", "c1:1"}, foreign},
		"set":                          {[]any{"SADD", "c1:1"}, foreign},
		"sorted set":                   {[]any{"ZADD", 1, Hold1}, foreign},
		"plain":                        {[]any{"SET", Plain3}, "0 0 3 -1 -1 -1"},
		"plain, kept":                  {[]any{"SET", lockspec.KeptValue(Plain3)}, "2 2 3 2 2 3"},
		"denied":                       {[]any{"SET", "relock/1|denied"}, "0 0 3 0 0 3"},
		"of a later relock":            {[]any{"SET", "relock/2|p|h1|"}, "0 0 3 0 0 3"},
		"reserved for what is no wait": {[]any{"SET", "relock/1|w|text"}, "0 0 3 0 0 3"},
		"reentrant": {
			[]any{"HSET", OwnerThem, 1, "hold", Hold3, "seq", "#1", "info", "info"}, "-1 -1 -1 0 0 3",
		},
		"reentrant, kept":              {[]any{"HSET", "hold", "kept:c1:1", "seq", "#1"}, "-1 -1 -1 2 2 3"},
		"read/write of a later relock": {[]any{"ZADD", "inf", "relock/2|f"}, foreign},
	} {
		t.Run(name, func(t *testing.T) {
			b := NewQueue(t, server)
			leaves := func(call script.Call) string {
				t.Helper()
				b.Clear()
				b.Do(tt.command[0].(string), append([]any{b.Key}, tt.command[1:]...)...)
				// also one that stays forever
				if slices.ContainsFunc(single, func(c script.Call) bool { return c.Script == call.Script }) {
					before := b.Content(b.Key)
					_, _ = b.Try(call)
					require.Equal(t, before, b.Content(b.Key))
					require.Equal(t, int64(-1), b.Do("PTTL", b.Key))
				}
				b.Do("PEXPIRE", b.Key, 20_000)
				before, dump := b.State(), b.Content(b.Key)
				reply, err := b.Send(call)
				require.Equal(t, dump, b.Content(b.Key))
				RequireSame(t, before, b.State())
				if call.Script == script.Release && call.Args[2] == "" && err != nil {
					return "0" // a release without a value to keep may be refused
				}
				require.NoError(t, err)
				if values, ok := reply.([]any); ok {
					reply = values[0]
				}
				return fmt.Sprint(reply)
			}
			for _, call := range single {
				require.Contains(t, []string{"0", "2", "-1"}, leaves(call))
			}
			var codes []string
			for _, w := range []Wait{plain, reentrant} {
				for _, call := range []script.Call{w.Try(), w.Enqueue(), w.Claim()} {
					code := leaves(call)
					codes = append(codes, code)
					require.Equal(t, (code == "0" || code == "2") && call.Script == script.Enqueue, len(b.Waits()) == 1)
				}
			}
			require.Equal(t, tt.codes, strings.Join(codes, " "))
			require.Equal(t, tt.codes == foreign, leaves(PollAs("c1")) == "-1")
			require.Equal(t, "-1", leaves(RWPollAs("c1", string(writes), 5)))
			require.Empty(t, b.Waits())
			for _, call := range readWrite {
				require.Equal(t, "-1", leaves(call))
			}
			for _, call := range cancels {
				require.Equal(t, "1", leaves(call))
			}
		})
	}
}

// Kinds of a lock do not mix. A request for another kind than there is is
// refused as a conflict, and changes nothing. The other mode of the same kind
// is busy.
func TestQueueScriptConflicts(t *testing.T) {
	for _, there := range allLetters {
		holder := WaitNamed("c9", 1, there)
		for _, held := range []string{holder.Held(), holder.Reserved()} {
			for _, asked := range allLetters {
				t.Run(held+", asked for "+asked, func(t *testing.T) {
					w := WaitNamed("c1", 1, asked)
					calls := map[string]script.Call{"0": w.Try(), "0, queued": w.Enqueue(), "3": w.Claim()}
					switch asked {
					case "pu":
						calls["0, acquire"] = AcquireOf(Plain1, "", Lease)
					case "ru":
						calls["0, acquire"] = ReentrantAcquireOf(OwnerUs, Hold1, Lease)
					}
					for want, call := range calls {
						b := NewQueue(t, server)
						b.Store(held)
						before := b.All()
						answer, _, queued := strings.Cut(want, ", queued")
						answer, _, _ = strings.Cut(answer, ",")
						if there[0] != asked[0] {
							answer, queued = "-1", false
						}
						require.Equal(t, answer, b.Code(call), want)
						if !queued {
							require.Equal(t, before, b.All(), want)
						}
						require.Equal(t, before.Lock, b.All().Lock)
					}
				})
			}
		}
	}
}
