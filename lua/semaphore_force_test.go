package lua_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/script"
)

// nextForce is the call after one that has returned this.
func nextForce(newest string) script.Call {
	return script.Call{Script: script.SemaphoreForce, Args: []any{"why", newest}}
}

// One call ends 256 holds, and the calls after it the others that were there.
// Only the last one hands off. What was taken or reserved meanwhile stays.
func TestSemaphoreScriptForceInBatches(t *testing.T) {
	const limit = 600
	all := permits(limit+2, "f", limit, 0)
	newcomer, waiter := all[limit], all[limit+1]
	b := NewQueue(t, server)
	b.Put("cf", LongLease, entries(all[:limit])...)
	numbers := []any{b.Key}
	for i, w := range all[:limit] {
		numbers = append(numbers, -(i + 1), "#"+w.Hold()) // one was granted after the other
	}
	b.Do("ZADD", numbers...)
	b.Queued(waiter)
	newest := b.Code(semaphoreForce)
	b.Require("the oldest", inUse(all[256:limit]...), waiter)
	notice := b.Do("GET", b.Key+script.NoticeSuffix)
	b.RequireDone(waiter.Cancel(0))
	b.RequireDone(newcomer.Try())
	b.RequireDone(waiter.Try(), waiter.Release())
	b.Put("cf", Lease, PermitNamed("c9", 9, "f", limit, 0).Reserved())
	reserved := PermitNamed("c9", 9, "f", limit, 0).Reserved()
	require.Equal(t, newest, b.Code(nextForce(newest)), "the same number again")
	b.Require("more", append(inUse(all[512:limit+1]...), reserved))
	b.Queued(waiter)
	b.RequireDone(nextForce(newest))
	b.Require("the last", append(inUse(newcomer), reserved, waiter.Reserved()))
	b.RequireDone(nextForce(newest))
	b.Require("again", append(inUse(newcomer), reserved, waiter.Reserved()))
	require.Equal(t, notice, b.Do("GET", b.Key+script.NoticeSuffix), "of the first call")
	b.Do("DEL", b.Key)
	b.RequireDone(nextForce(newest))
	require.Equal(t, "0", b.Code(semaphoreForce))
}
