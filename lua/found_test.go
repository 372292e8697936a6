package lua_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/script"
)

// acquiring returns the scripts that acquire a lock, by the kind that they
// request.
func acquiring() map[string][]script.Call {
	all := map[string][]script.Call{
		"p": {AcquireOf(Plain1, "", Lease), redLock, multiOfOne},
		"r": {ReentrantAcquireOf(OwnerUs, Hold1, Lease)},
	}
	for kind, w := range map[string]Wait{
		"p": WaitNamed("c1", 1, "pf"), "r": WaitNamed("c1", 1, "ru"), "w": WaitNamed("c1", 1, "wf"),
		"c": PermitNamed("c1", 1, "f", 2, 0),
	} {
		all[kind] = append(all[kind], w.Try(), w.Enqueue(), w.Claim())
	}
	return all
}

// found returns what the key is, as the script answers.
func (b *Queue) found(call script.Call) string {
	b.Helper()
	answer := b.Ask(call)
	require.Equal(b, "-1", answer[0], answer)
	return answer[len(answer)-1]
}

// A conflict names what the key is.
func TestScriptsNameWhatTheyFind(t *testing.T) {
	const reserved = "relock/1|w|c6:1:pu:1250"
	for name, tt := range map[string]struct {
		kind, found string
		command     []any
	}{
		"plain":      {"p", Plain3, []any{"SET", Plain3}},
		"reserved":   {"p", reserved, []any{"SET", reserved}},
		"reentrant":  {"r", "relock/1|r|" + Hold3, []any{"HSET", OwnerThem, 1, "hold", Hold3}},
		"read/write": {"w", "relock/1|u", []any{"ZADD", "inf", "relock/1|u"}},
		"semaphore":  {"c", "relock/1|cf", []any{"ZADD", "inf", "relock/1|cf"}},
		"text":       {"", "alien", []any{"SET", "text"}},
		"hash":       {"", "alien", []any{"HSET", OwnerUs, 1}},
		"list":       {"", "alien", []any{"RPUSH", "c1:1"}},
		"sorted set": {"", "alien", []any{"ZADD", 1, Hold1}},
	} {
		t.Run(name, func(t *testing.T) {
			b := NewQueue(t, server)
			b.Do(tt.command[0].(string), append([]any{b.Key}, tt.command[1:]...)...)
			b.Do("PEXPIRE", b.Key, Lease.Milliseconds())
			for kind, calls := range acquiring() {
				for n, call := range calls {
					if kind != tt.kind {
						require.Equal(t, tt.found, b.found(call), "%s %d", kind, n)
					}
				}
			}
		})
	}
}

// A conflict says nothing of a key that the user may not read.
func TestScriptsFindWhatTheyMayRead(t *testing.T) {
	plain, writes := AcquireOf(Plain1, "", Lease), WaitNamed("c1", 1, "wf")
	for denied, tt := range map[string]struct {
		held string
		call script.Call
	}{
		"-get": {Plain3, writes.Try()}, "-hmget": {WaitNamed("c9", 1, "ru").Held(), plain}, "-zrange": {writes.Held(), plain},
	} {
		t.Run(denied, func(t *testing.T) {
			b := NewQueue(t, server)
			b.Store(tt.held)
			require.NotEmpty(t, b.found(tt.call))
			b.Deny(denied)
			require.Empty(t, b.found(tt.call))
		})
	}
}

// A refusal says for how long a minimum hold keeps the key.
func TestScriptsNameAMinimumHold(t *testing.T) {
	value := lockspec.KeptValue(Plain3)
	plain, reentrant := WaitNamed("c1", 1, "pf"), WaitNamed("c1", 1, "rf")
	keptHash := []any{"HSET", "hold", "kept:" + Hold3, "seq", "#1"}
	for name, tt := range map[string]struct {
		call    script.Call
		command []any
		ms      int // the part of the answer
	}{
		"acquire":            {AcquireOf(Plain1, "", Lease), []any{"SET", value}, 1},
		"reentrant_acquire":  {ReentrantAcquireOf(OwnerUs, Hold1, Lease), keptHash, 1},
		"redlock":            {redLock, []any{"SET", value}, 2},
		"redlock, waiting":   {wants(script.RedLockWait, Plain1, "c1:1:q"), []any{"SET", value}, 2},
		"several":            {multiOfOne, []any{"SET", value}, 3},
		"try":                {plain.Try(), []any{"SET", value}, 1},
		"enqueue":            {plain.Enqueue(), []any{"SET", value}, 2},
		"claim":              {plain.Claim(), []any{"SET", value}, 2},
		"poll":               {PollAs("c1"), []any{"SET", value}, 2},
		"reentrant: try":     {reentrant.Try(), keptHash, 1},
		"reentrant: enqueue": {reentrant.Enqueue(), keptHash, 2},
		"reentrant: claim":   {reentrant.Claim(), keptHash, 2},
		"reentrant: poll":    {PollAs("c1"), keptHash, 2},
	} {
		t.Run(name, func(t *testing.T) {
			b := NewQueue(t, server)
			b.Live("c1")
			b.Queued(plain, reentrant)
			b.Do(tt.command[0].(string), append([]any{b.Key}, tt.command[1:]...)...)
			b.Do("PEXPIRE", b.Key, Lease.Milliseconds())
			answer := b.Ask(tt.call)
			require.Equal(t, "2", answer[0], answer)
			RequireExpiry(t, Lease, time.Duration(number(t, answer[tt.ms]))*time.Millisecond)
		})
	}
}
