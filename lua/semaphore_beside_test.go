package lua_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/script"
)

// A permit that is free is taken, and one is released, in front of the
// functions of the queue. For 2,000 random states of a semaphore, the scripts
// with and without these paths answer the same, and leave the same of what has
// not ended.
func TestSemaphoreScriptsBesideAndInFull(t *testing.T) {
	shortcut{withoutBeside(t), randomPermit, endPermit, semaphoreContent}.requireSame(t)
}

// endPermit may end a permit.
func endPermit(random *rand.Rand, mode string, locks ...*Queue) (done []string) {
	if random.IntN(8) != 0 {
		return nil
	}
	stale := string("rkv"[random.IntN(3)]) + ":stale:1"
	for _, b := range locks {
		none := len(b.Entries()) == 0
		if b.Put("c"+mode, -time.Second, stale); none {
			b.Do("PEXPIRE", b.Key, 1000) // no lock outlives its last entry by more
		}
	}
	return []string{"ended " + stale}
}

// randomPermit returns a request of one of a few waiters, and what it is. An
// unfair semaphore gets no queue, as time decides who may overtake.
func randomPermit(random *rand.Rand, mode string, _ int) (script.Call, string) {
	n := random.IntN(5) + 1
	w := PermitNamed(fmt.Sprint("c", n), 1, mode, 1+n%3, time.Duration(n%2)*Lease/2)
	calls := []script.Call{
		w.Try(), w.Try(), w.Release(), w.Release(), w.Renew(LongLease), w.Cancel(1), w.Cancel(0), w.Claim(),
		w.Enqueue(), w.EnqueueLimited("", 1),
	}
	if mode == "u" {
		calls = calls[:len(calls)-2]
	}
	i := random.IntN(len(calls))
	return calls[i], fmt.Sprint(i, " ", w)
}

// withoutBeside returns each script that has such a path, without it.
func withoutBeside(t testing.TB) map[*script.Script]*script.Script {
	full := map[*script.Script]*script.Script{}
	for _, s := range []*script.Script{script.SemaphoreTry, script.SemaphoreEnqueue, script.SemaphoreRelease} {
		other := *s
		for _, path := range []string{"= take_alone(", "= take_beside(", "= leave_early("} {
			other.Source = strings.Replace(other.Source, path, "= false and"+path[1:], 1)
		}
		require.NotEqual(t, s.Source, other.Source)
		full[s] = &other
	}
	return full
}

// semaphoreContent returns what the keys of a semaphore have that has not
// ended, but for times, and for how long roughly they stay.
func semaphoreContent(t *testing.T, b *Queue) []string {
	t.Helper()
	all, err := redis.Strings(b.Do("EVAL", `
local time = redis.call('TIME')
local now = string.format('(%.0f', time[1] * 1000000 + time[2])
local entries = redis.call('ZRANGEBYSCORE', KEYS[1], now, '9007199254740991')
table.sort(entries)
local all = {table.concat(entries, ' '), table.concat(redis.call('ZRANGE', KEYS[2], 0, -1), ' ')}
for _, entry in ipairs(entries) do
  local hold = string.sub(entry, 3)
  local numbered = redis.call('ZSCORE', KEYS[1], '#' .. hold) ~= false
  all[#all + 1] = tostring(redis.call('HGET', KEYS[3], hold)) .. tostring(numbered)
end
local left = redis.call('PTTL', KEYS[1])
all[#all + 1] = tostring(left > 5000) .. tostring(left > 15000) .. tostring(left > 40000)
all[#all + 1] = tostring(redis.call('PTTL', KEYS[3]) == -1)
return all`, 3, b.Key, b.QueueKey(), b.Key+script.HoldersSuffix), nil)
	require.NoError(t, err)
	return all
}
