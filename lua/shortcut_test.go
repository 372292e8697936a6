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

// shortcut is a kind of lock whose scripts have paths in front of the functions
// of the queue.
type shortcut struct {
	request func(random *rand.Rand, mode string, seq int) (script.Call, string)
	end     func(random *rand.Rand, mode string, locks ...*Queue) []string // what may end in between
}

// requireSame runs random requests, by the scripts with and without the paths.
// Both must answer the same, and leave the same of what has not ended.
func (s shortcut) requireSame(t *testing.T) {
	const histories, steps = 100, 20
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // no secret
	full := inFull(t)
	for range histories {
		fast, slow := NewQueue(t, server), NewQueue(t, server)
		slow.Key += "slow"
		slow.Clear()
		mode := "fu"[random.IntN(2):][:1]
		var done []string
		for seq := 2; seq < steps+2; seq++ {
			done = append(done, s.end(random, mode, fast, slow)...)
			call, name := s.request(random, mode, seq)
			done = append(done, name)
			call.Key = fast.Key
			got, err := fast.Try(call)
			require.NoError(t, err, done)
			call.Key = slow.Key
			if other := full[call.Script]; other != nil {
				call.Script = other
			}
			want, err := slow.Try(call)
			require.NoError(t, err, done)
			require.Equal(t, codeOf(want), codeOf(got), done)
			require.Equal(t, contentOf(t, slow), contentOf(t, fast), done)
		}
	}
}

// inFull returns each script that has such a path, without it.
func inFull(t testing.TB) map[*script.Script]*script.Script {
	full := map[*script.Script]*script.Script{}
	for _, s := range []*script.Script{
		script.RWTry, script.RWEnqueue, script.RWRelease,
		script.SemaphoreTry, script.SemaphoreEnqueue, script.SemaphoreRelease,
	} {
		other := *s
		for _, path := range []string{"= take_alone(", "= take_beside(", "= leave_early("} {
			other.Source = strings.Replace(other.Source, path, "= false and"+path[1:], 1)
		}
		require.NotEqual(t, s.Source, other.Source)
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

// contentOf returns what the keys of a lock have that has not ended, but for
// times, and for how long roughly they stay.
func contentOf(t *testing.T, b *Queue) []string {
	t.Helper()
	all, err := redis.Strings(b.Do("EVAL", `
local time = redis.call('TIME')
local now = string.format('(%.0f', time[1] * 1000000 + time[2])
local entries = redis.call('ZRANGEBYSCORE', KEYS[1], now, '9007199254740991')
table.sort(entries)
local all = {table.concat(entries, ' '), table.concat(redis.call('ZRANGE', KEYS[2], 0, -1), ' ')}
if #entries > 0 then
  all[#all + 1] = redis.call('ZRANGE', KEYS[1], -1, -1)[1]
end
for _, entry in ipairs(entries) do
  local hold = string.sub(entry, 3)
  all[#all + 1] = tostring(redis.call('HGET', KEYS[3], hold))
  all[#all + 1] = tostring(redis.call('ZSCORE', KEYS[1], '#' .. hold) ~= false)
end
local left = redis.call('PTTL', KEYS[1])
all[#all + 1] = tostring(left > 5000) .. tostring(left > 15000) .. tostring(left > 40000)
all[#all + 1] = tostring(redis.call('PTTL', KEYS[3]) == -1)
return all`, 3, b.Key, b.QueueKey(), b.Key+script.HoldersSuffix), nil)
	require.NoError(t, err)
	return all
}
