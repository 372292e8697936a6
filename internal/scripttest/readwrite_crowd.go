package scripttest

import (
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"
)

// ReadersFrom returns n waits to read.
func ReadersFrom(first, n int) (all []RWWait) {
	for i := range n {
		all = append(all, RWWaitNamed("c1", first+i, "sf"))
	}
	return all
}

// ListedReaders are so many as a poll lists them.
func ListedReaders(n int) (all []any) {
	for i := range n {
		all = append(all, string(RWWaitNamed("c1", 5000+i, "sf").Wait), 5)
	}
	return all
}

// Holders makes so many hold the lock to read; when below 0, so many whose time is over, beside one that goes on.
func (b *ReadWrite) Holders(n int) {
	b.Helper()
	if n == 0 {
		return
	}
	at, first := b.Now()+Lease.Microseconds(), 1
	if n < 0 {
		b.Put("f", Lease, RWWaitNamed("c2", 1, "sf").Reads())
		n, at, first = -n, b.Now()-time.Second.Microseconds(), 1001
	}
	entries, notes := []any{b.Key, "inf", "relock/1|f"}, []any{b.Key + ":h"}
	for i := range n {
		w := RWWaitNamed("c1", first+i, "sf")
		entries = append(entries, at, w.Reads(), -1, "#"+w.Hold())
		notes = append(notes, w.Hold(), "1:0|info|owner")
	}
	b.Do("ZADD", entries...)
	b.Do("HSET", notes...)
	b.Do("PEXPIRE", b.Key, Lease.Milliseconds()+2)
	b.Do("PEXPIRE", b.Key+":h", Lease.Milliseconds()+2)
}

// Crowd puts waits into the queue, which came a minute ago.
func (b *ReadWrite) Crowd(waits ...RWWait) {
	b.Helper()
	at := b.Now() - time.Minute.Microseconds()
	members := []any{b.QueueKey()}
	for i, w := range waits {
		members = append(members, at+int64(i), string(w.Wait))
	}
	b.Do("ZADD", members...)
	b.Do("PEXPIRE", b.QueueKey(), 60_000)
}

// LastScript is how long the last one took.
func (b *ReadWrite) LastScript() time.Duration {
	b.Helper()
	entries, err := redis.Values(b.Do("SLOWLOG", "GET", -1), nil)
	require.NoError(b, err)
	for _, entry := range entries {
		parts, err := redis.Values(entry, nil)
		require.NoError(b, err)
		args, err := redis.Strings(parts[3], nil)
		require.NoError(b, err)
		if args[0] == "EVALSHA" {
			us, err := redis.Int64(parts[2], nil)
			require.NoError(b, err)
			return time.Duration(us) * time.Microsecond
		}
	}
	require.FailNow(b, "no script in the log")
	return 0
}
