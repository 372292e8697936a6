package proof

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// This describes what a server has of a task queue.
// docs/internals/queue-design.md has the keys.

// readTasks reads a queue.
const readTasks = `
local all = {}
for i, suffix in ipairs({'d', 'l', 'z', 'w', 's', 'b'}) do
  all[i] = redis.call('ZRANGE', KEYS[1] .. suffix, 0, -1)
end
for i, suffix in ipairs({'o', 'k', 'm', 'p'}) do
  all[6 + i] = redis.call('HGETALL', KEYS[1] .. suffix)
end
for i, suffix in ipairs({'d', 'w', 's'}) do
  all[10 + i] = redis.call('ZRANGE', KEYS[1] .. suffix, 0, -1, 'WITHSCORES')
end
all[14] = redis.call('HKEYS', KEYS[1] .. 'v')
return all`

// state describes the queue, and returns when tasks are due, in us.
func (m *taskMachine) state(r *rapid.T) (text string, due map[string]int64) {
	parts, err := redis.Values(m.conn.Do("EVAL", readTasks, 1, taskKeys))
	require.NoError(r, err)
	var sets [6][]string
	for i := range sets {
		sets[i], err = redis.Strings(parts[i], nil)
		require.NoError(r, err)
	}
	var hashes [4]map[string]string
	for i := range hashes {
		hashes[i], err = redis.StringMap(parts[6+i], nil)
		require.NoError(r, err)
	}
	links, lasts, attempts, records := hashes[0], hashes[1], hashes[2], hashes[3]
	due = map[string]int64{}
	for _, part := range parts[10:13] {
		some, err := redis.Int64Map(part, nil)
		require.NoError(r, err)
		maps.Copy(due, some)
	}
	s := taskState{due: sets[0], leased: sets[1], dead: sets[2], delayed: sets[3], suspect: sets[4]}
	s.paused, err = redis.Strings(parts[13], nil)
	require.NoError(r, err)
	locked := lockedTasks(r, sets[5], records)
	for _, id := range slices.Sorted(maps.Keys(locked)) {
		s.locked = append(s.locked, id+" behind "+locked[id])
	}
	for before, link := range links {
		if _, prior, _ := placeOf(r, records[link[16:]]); prior != before {
			link += " by its record behind " + prior
		}
		s.behind = append(s.behind, link[16:])
	}
	for _, id := range slices.Concat(s.due, s.suspect, s.leased, slices.Collect(maps.Keys(locked))) {
		if key, _, joined := placeOf(r, records[id]); joined && key != "" {
			s.keys = append(s.keys, fmt.Sprint(key, listFrom(id, links), lasts[key]))
			delete(lasts, key)
		}
	}
	for key, last := range lasts {
		s.keys = append(s.keys, fmt.Sprint(key, " without a head", last))
	}
	for id, stored := range attempts {
		attempt, _, _ := strings.Cut(stored, " ")
		s.attempts = append(s.attempts, id+"="+attempt)
	}
	for id := range records {
		s.all = append(s.all, id)
	}
	return s.String(), due
}

// lockedTasks returns the locks of the tasks that are behind one. An entry
// whose task was removed is none.
func lockedTasks(r *rapid.T, entries []string, records map[string]string) map[string]string {
	locked := map[string]string{}
	for _, entry := range entries {
		size, err := strconv.Atoi(strings.TrimPrefix(entry[:4], "k"))
		require.NoError(r, err)
		lock, ticket, id := entry[4:4+size], entry[4+size:20+size], entry[20+size:]
		if record := records[id]; record != "" && record[8:24] == ticket {
			if locked[id] = lock; entry[0] == 'k' {
				locked[id] = aside(lock)
			}
		}
	}
	return locked
}

// placeOf returns the key in a record, the ID before it, and whether it has
// joined its key.
func placeOf(r *rapid.T, record string) (key, before string, joined bool) {
	if len(record) < 30 {
		return "no record", "", true
	}
	mark, rest := record[24:27], record[27:]
	if joined = mark != "---"; joined {
		before, rest = cutSized(r, mark+rest)
	}
	key, _ = cutSized(r, rest)
	return key, before, joined
}

// cutSized cuts a text after 3 digits that are its length.
func cutSized(r *rapid.T, text string) (first, rest string) {
	n, err := strconv.Atoi(text[:3])
	require.NoError(r, err)
	return text[3 : 3+n], text[3+n:]
}

// listFrom returns the tasks of a key, from its head on.
func listFrom(head string, links map[string]string) []string {
	list := []string{head}
	for links[head] != "" && len(list) <= len(links) {
		head = links[head][16:]
		list = append(list, head)
	}
	return list
}

// taskState is what a queue has.
type taskState struct {
	due, delayed, leased, behind, dead, attempts, all []string
	suspect, locked                                   []string // due after an interruption; behind locks
	paused                                            []string
	keys                                              []string // its tasks in their order, and the last one again
}

// String sorts what has no order.
func (s taskState) String() string {
	var text strings.Builder
	for _, part := range []struct {
		name   string
		list   []string
		sorted bool
	}{
		{"due", s.due, true},
		{"due after an interruption", s.suspect, true},
		{"behind locks", s.locked, false},
		{"paused", s.paused, false},
		{"delayed", s.delayed, true},
		{"dead", s.dead, true},
		{"leased", s.leased, false},
		{"behind", s.behind, false},
		{"keys", s.keys, false},
		{"attempts", s.attempts, false},
		{"all", s.all, false},
	} {
		if !part.sorted {
			slices.Sort(part.list)
		}
		fmt.Fprintf(&text, "%s %v\n", part.name, part.list)
	}
	return text.String()
}
