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

// A free lock that nobody waits for is taken, and its only hold is released, in
// front of the functions of the queue. For 2,000 random states of a lock, the
// scripts with and without these paths answer the same and leave the same.
func TestRWScriptsAloneAndInFull(t *testing.T) {
	shortcut{withoutAlone(t), randomRW, endRW, rwContent}.requireSame(t)
}

// endRW may end an entry of a lock, or all of them.
func endRW(random *rand.Rand, mode string, locks ...*Queue) (done []string) {
	if random.IntN(8) == 0 {
		stale := string("rw"[random.IntN(2)]) + ":stale:1"
		for _, b := range locks {
			b.Clear()
			b.Put(mode, -time.Second, stale)
		}
		done = append(done, "ended "+stale)
	}
	if random.IntN(8) == 0 {
		for _, b := range locks {
			b.Do("DEL", b.Key)
		}
		done = append(done, "all have ended")
	}
	return done
}

// randomRW returns a request of one of a few waiters, and what it is. An unfair
// lock gets no queue, as time decides who may overtake.
func randomRW(random *rand.Rand, mode string, seq int) (script.Call, string) {
	n := random.IntN(4) + 1
	w := WaitNamed(fmt.Sprint("c", n), 1, string("sw"[n%2])+mode)
	writes := n % 2
	calls := []script.Call{
		w.Try(), w.Try(), w.Release(), w.Leave(0, 0, seq), w.Leave(1, 0, seq), w.Leave(0, 1, seq),
		w.Enter(1, 1, seq, Lease), w.Enter(2-2*writes, 2*writes, seq, Lease), w.Renew(LongLease),
		w.Cancel(1), w.Cancel(0), w.Claim(), w.Enqueue(), w.EnqueueLimited("", 1),
	}
	if mode == "u" {
		calls = calls[:len(calls)-2]
	}
	i := random.IntN(len(calls))
	return calls[i], fmt.Sprint(i, " ", w)
}

// withoutAlone returns each script that has such a path, without it.
func withoutAlone(t testing.TB) map[*script.Script]*script.Script {
	full := map[*script.Script]*script.Script{}
	for s, path := range map[*script.Script][2]string{
		script.RWTry:     {"= take_alone(", "= false and take_alone("},
		script.RWEnqueue: {"= take_alone(", "= false and take_alone("},
		script.RWRelease: {"redis.pcall('ZCARD', KEYS[1]) ~= 3", "redis.pcall('ZCARD', KEYS[1]) ~= -1"},
	} {
		require.Equal(t, 1, strings.Count(s.Source, path[0]))
		other := *s
		other.Source = strings.Replace(s.Source, path[0], path[1], 1)
		full[s] = &other
	}
	return full
}

func codeOf(answer any) any {
	if all, ok := answer.([]any); ok {
		return fmt.Sprint(len(all), all[0])
	}
	return answer
}

// rwContent returns what the keys of a lock have, but for times, and which of
// them expire.
func rwContent(t *testing.T, b *Queue) []string {
	t.Helper()
	all, err := redis.Strings(b.Do("EVAL", `
local all = {}
for _, key in ipairs({KEYS[1], KEYS[2]}) do
  local names = redis.call('ZRANGE', key, 0, -1)
  if key == KEYS[1] then
    table.sort(names)
  end
  all[#all + 1] = table.concat(names, ' ')
end
local notes = redis.call('HGETALL', KEYS[3])
local pairs_of = {}
for i = 1, #notes, 2 do
  pairs_of[#pairs_of + 1] = notes[i] .. '=' .. notes[i + 1]
end
table.sort(pairs_of)
all[#all + 1] = table.concat(pairs_of, ' ')
for _, key in ipairs(KEYS) do
  local left = redis.call('PTTL', key)
  all[#all + 1] = tostring(left > 10000) .. tostring(left > 40000)
end
return all`, 3, b.Key, b.QueueKey(), b.Key+script.HoldersSuffix), nil)
	require.NoError(t, err)
	return all
}
