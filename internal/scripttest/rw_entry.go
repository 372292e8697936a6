package scripttest

import (
	"slices"
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"
)

// RWEntry is one hold or reservation of a read/write lock, as the server stores
// it.
type RWEntry struct {
	Kind  string // r, w or v
	name  string // the id of the hold or the wait
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
		e := RWEntry{Kind: kind, name: name, Until: score, Seq: -scores["#"+name]}
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
const rwSnapshot = `return {redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', '(inf', 'WITHSCORES'), redis.call('HGETALL', KEYS[2])}`

// IsRW reports whether the content of a sorted set is a read/write lock.
func IsRW(content map[string]string) bool {
	return content["relock/1|f"] != "" || content["relock/1|u"] != ""
}
