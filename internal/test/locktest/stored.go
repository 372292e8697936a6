package locktest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"
)

// Absent is the time to live of a key that does not exist.
const Absent = time.Duration(-2)

// ClockGrain is the resolution of the server's clock.
const ClockGrain = 2 * time.Millisecond

// KeyState is the content of a key and its time to live. That is -1 if the key
// would stay forever.
type KeyState struct {
	Content any
	TTL     time.Duration
}

// StateOf returns what a key holds now.
func StateOf(t testing.TB, conn redis.Conn, key string) KeyState {
	t.Helper()
	reply, err := redis.Values(conn.Do("EVAL", stateSource, 1, key))
	require.NoError(t, err)
	s := KeyState{TTL: time.Duration(reply[0].(int64))}
	if s.TTL >= 0 {
		s.TTL *= time.Millisecond
	}
	switch content := reply[1].(type) {
	case []byte:
		s.Content = string(content)
	case []any:
		s.Content, err = redis.StringMap(content, nil)
		require.NoError(t, err)
	}
	return s
}

// stateSource returns the time to live and the content. A string is returned
// as it is, a hash and a sorted set as a list, anything else as a dump.
const stateSource = `
local kind, content = redis.call('TYPE', KEYS[1]).ok, false
if kind == 'string' then
  content = redis.call('GET', KEYS[1])
elseif kind == 'hash' then
  content = redis.call('HGETALL', KEYS[1])
elseif kind == 'zset' then
  content = redis.call('ZRANGE', KEYS[1], 0, -1, 'WITHSCORES')
elseif kind ~= 'none' then
  content = redis.call('DUMP', KEYS[1])
end
return {redis.call('PTTL', KEYS[1]), content}`

// RWEntry is one hold or reservation of a read/write lock, as the server stores
// it.
type RWEntry struct {
	Kind  string // r, w, k or v
	Name  string // the id of the hold or the wait
	Until int64  // us
	Seq   int64
	RWNote
}

// RWNote is the readable part of an entry.
type RWNote struct{ Counts, Info, Owner string }

// ReadRW returns the entries of the lock at a key, in the order in which they
// end.
func ReadRW(t testing.TB, conn redis.Conn, key string) (all []RWEntry) {
	t.Helper()
	both, err := redis.Values(conn.Do("EVAL", rwSnapshot, 2, key, key+":h"))
	require.NoError(t, err)
	scores, err := redis.Int64Map(both[0], nil)
	require.NoError(t, err)
	notes, err := redis.StringMap(both[1], nil)
	require.NoError(t, err)
	for entry, score := range scores {
		kind, name, _ := strings.Cut(entry, ":")
		if strings.HasPrefix(entry, "#") {
			continue // the number of a hold's change
		}
		e := RWEntry{Kind: kind, Name: name, Until: score, Seq: -scores["#"+name]}
		if note := notes[name]; note != "" {
			e.Counts, note, _ = strings.Cut(note, "|")
			i := strings.LastIndexByte(note, '|')
			e.Info, e.Owner = note[:i], note[i+1:]
		}
		all = append(all, e)
	}
	slices.SortFunc(all, func(a, b RWEntry) int { return int(a.Until - b.Until) })
	return all
}

// rwSnapshot leaves out the members without an end.
const rwSnapshot = `return {redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', '(inf', 'WITHSCORES'), ` +
	`redis.call('HGETALL', KEYS[2])}`

// IsRW reports whether the content of a sorted set is a read/write lock or a
// semaphore.
func IsRW(content map[string]string) bool {
	return slices.ContainsFunc([]string{"f", "u", "cf", "cu"},
		func(mode string) bool { return content["relock/1|"+mode] != "" })
}

// RedValue returns the value that a hold stores at a node.
func RedValue(hold string, node int) string {
	return fmt.Sprintf("relock/1|p|%s.%d|c1|host|1|label|1", hold, node)
}
