package relock

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/testkit"
	"github.com/stretchr/testify/require"
)

// rwEntry is one hold or reservation of a read/write lock, as the server has it.
type rwEntry struct {
	kind  string // r, w or v
	name  string // of the hold or the wait
	until int64  // us
	seq   int64
	rwNote
}

// rwNote is what people can see of it.
type rwNote struct{ counts, info, owner string }

// readRW returns the entries of the lock at a key, first to end first.
func readRW(t testing.TB, conn redis.Conn, key string) (all []rwEntry) {
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
		e := rwEntry{kind: kind, name: name, until: score, seq: -scores["#"+name]}
		if note := notes[name]; note != "" {
			e.counts, note, _ = strings.Cut(note, "|")
			i := strings.LastIndexByte(note, '|')
			e.info, e.owner = note[:i], note[i+1:]
		}
		all = append(all, e)
	}
	slices.SortFunc(all, func(a, b rwEntry) int { return int(a.until - b.until) })
	return all
}

// rwSnapshot leaves out what stands for ever.
const rwSnapshot = `return {redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', '(inf', 'WITHSCORES'), redis.call('HGETALL', KEYS[2])}`

// isRW says that what a sorted set has is a read/write lock.
func isRW(content map[string]string) bool {
	return content["relock/1|f"] != "" || content["relock/1|u"] != ""
}

// rwLevelsAt is how many levels the server has, of all holds.
func rwLevelsAt(t testing.TB, b *scriptBench) (n int) {
	t.Helper()
	for _, e := range readRW(t, b.conn, b.key) {
		var reads, writes int
		if e.kind != "v" {
			_, err := fmt.Sscanf(e.counts, "%d:%d", &reads, &writes)
			require.NoError(t, err, "%v", e)
			require.Equal(t, e.kind == "w", writes > 0, "%v", e)
		}
		n += reads + writes
	}
	return n
}

// rwLevels is a read/write lock whose levels are taken to read and to write by turns.
type rwLevels struct {
	*RWLock
	order string
	taken int
}

func newRWLevels(order string, l *RWLock) anyLock { return &rwLevels{RWLock: l, order: order} }

func (l *rwLevels) reads() bool { return l.order[l.taken%len(l.order)] == 'r' }

func (l *rwLevels) Acquire(ctx context.Context) (Hold, error) {
	return l.next(ctx, l.RAcquire, l.RWLock.Acquire)
}

func (l *rwLevels) TryAcquire(ctx context.Context) (Hold, error) {
	return l.next(ctx, l.TryRAcquire, l.RWLock.TryAcquire)
}

func (l *rwLevels) next(ctx context.Context, read, write func(context.Context) (Hold, error)) (h Hold, err error) {
	if l.reads() {
		h, err = read(ctx)
	} else {
		h, err = write(ctx)
	}
	if err == nil {
		l.taken++
	}
	return h, err
}

func (l *rwLevels) Lock(ctx context.Context) error { return l.by(ctx, l.RLock, l.RWLock.Lock) }

func (l *rwLevels) TryLock(ctx context.Context) error {
	return l.by(ctx, l.TryRLock, l.RWLock.TryLock)
}

func (l *rwLevels) Unlock(ctx context.Context) error { return l.by(ctx, l.RUnlock, l.RWLock.Unlock) }

func (l *rwLevels) by(ctx context.Context, read, write func(context.Context) error) error {
	if l.reads() {
		return read(ctx)
	}
	return write(ctx)
}

// rwKinds are read/write locks for the tests of waiters.
var rwKinds = map[string]func(key string, c *Client, opts ...LockOption) anyLock{
	"RWLock": func(key string, c *Client, opts ...LockOption) anyLock { return NewRWLock(key, c, opts...) },
	// All write, but for those who wait behind a proxy.
	"RWLock that waits to read": func(key string, c *Client, opts ...LockOption) anyLock {
		if c.config.CommandTimeout == waiterLimit {
			return newRWLevels("r", NewRWLock(key, c, opts...))
		}
		return NewRWLock(key, c, opts...)
	},
}

// as is the context of an owner.
func as(t testing.TB, name string) context.Context { return ContextWithOwner(t.Context(), name) }

// rwStored is what the server has of a read/write lock, by the owner's name, as '<r or w> <reads>:<writes>'.
func rwStored(t testing.TB, s *redistest.Server, c *Client, key string) map[string]string {
	t.Helper()
	stored := map[string]string{}
	for _, e := range readRW(t, s.Dial(t), keyOf(c, key)) {
		stored[e.owner] = e.kind + " " + e.counts
	}
	return stored
}

// requireRWGone sees that nothing is left of the lock, the holders' notes included.
func requireRWGone(t testing.TB, s *redistest.Server, c *Client, key string) {
	t.Helper()
	k := keyOf(c, key)
	testkit.Eventually(t, testkit.Patience, func() bool { return s.Do(t, "EXISTS", k, k+":q", k+":h") == int64(0) }, "nothing left")
}
