package lua_test

import (
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/test/locktest"
)

// requireWhole checks a read/write lock or a semaphore. A write hold, or a
// reservation to write, is the only entry. Each hold has its number, and the
// lock expires with its last entry.
func (b *Queue) requireWhole() {
	b.Helper()
	content, _ := b.State().Content.(map[string]string)
	if !locktest.IsRW(content) {
		return
	}
	all := locktest.ReadRW(b, b.Conn, b.Key)
	for _, e := range all {
		if e.Kind == "w" || e.Kind == "v" && Wait(e.Name).letters()[0] == 'w' {
			require.Len(b, all, 1, "beside one that writes: %v", all)
		}
		if e.Kind != "k" && e.Kind != "f" { // a late copy of a request may have made its hold again
			require.Equal(b, e.Kind != "v", e.Seq > 0, "%v", e)
		}
	}
	before := b.Now() / 1000
	left, err := redis.Int64(b.Do("PTTL", b.Key), nil)
	require.NoError(b, err)
	if last, after := b.lastEnd(all), b.Now()/1000; last > after {
		require.LessOrEqual(b, left, last-before+1000)
		require.GreaterOrEqual(b, left, last-after-1000)
	}
}

// lastEnd returns when the last entry ends, in ms.
func (b *Queue) lastEnd(all []locktest.RWEntry) int64 {
	if len(all) == 0 {
		return 0
	}
	return all[len(all)-1].Until / 1000
}

// Entry returns the entry of a read/write hold.
func (b *Queue) Entry(w Wait) locktest.RWEntry {
	b.Helper()
	for _, e := range locktest.ReadRW(b, b.Conn, b.Key) {
		if e.Name == w.Hold() {
			return e
		}
	}
	require.FailNow(b, "no such hold", "%s", w.Hold())
	return locktest.RWEntry{}
}

// Left returns the time that a read/write hold has left.
func (b *Queue) Left(w Wait) time.Duration {
	b.Helper()
	return time.Duration(b.Entry(w).Until-b.Now()) * time.Microsecond
}

// Put stores entries of a read/write lock without a script. They end after the
// duration left.
func (b *Queue) Put(mode string, left time.Duration, entries ...string) {
	b.Helper()
	at := b.Now() + left.Microseconds()
	all, notes := []any{b.Key, "inf", "relock/1|" + mode}, []any{b.Key + ":h", "", ""}
	for _, entry := range entries {
		all = append(all, at, entry)
		if strings.Contains("rw", entry[:1]) {
			all = append(all, -1, "#"+entry[2:])
			notes = append(notes, entry[2:], "1:0|info|owner")
		}
	}
	b.Do("ZADD", all...)
	b.Do("HSET", notes...)
	b.Do("HDEL", b.Key+":h", "")
	left = time.Minute
	if last := b.lastEnd(locktest.ReadRW(b, b.Conn, b.Key)) - b.Now()/1000; last > 0 {
		left = time.Duration(last) * time.Millisecond
	}
	b.Do("PEXPIRE", b.Key, left.Milliseconds()+1)
	b.Do("PEXPIRE", b.Key+":h", left.Milliseconds()+1)
}
