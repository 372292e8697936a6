package scripttest

import (
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/redistest"
)

// ReadWrite is a [Queue] for a test that names the waits of a read/write lock
// by [RWWait].
type ReadWrite struct{ *Queue }

// NewReadWrite returns a bench for the scripts of read/write locks.
func NewReadWrite(t testing.TB, s *redistest.Server) *ReadWrite { return &ReadWrite{NewQueue(t, s)} }

// Lock returns the entries, in alphabetical order.
func (b *ReadWrite) Lock() []string { return b.Entries() }

// Stand is [Queue.Line].
func (b *ReadWrite) Stand(ago time.Duration, waits ...RWWait) {
	b.Helper()
	members := make([]Wait, len(waits))
	for i, w := range waits {
		members[i] = w.Wait
	}
	b.Line(ago, members...)
}

// RWWait is a [Wait] for a read/write lock.
type RWWait struct{ Wait }

// RWWaitNamed is [WaitNamed].
func RWWaitNamed(client string, n int, letters string) RWWait {
	return RWWait{WaitNamed(client, n, letters)}
}

// RWGone is [StaleWaits].
func RWGone(n int, letters string) (all []RWWait) {
	for _, w := range StaleWaits(n, letters) {
		all = append(all, RWWait{w})
	}
	return all
}

// ReadersFrom returns n waits to read.
func ReadersFrom(first, n int) (all []RWWait) {
	for i := range n {
		all = append(all, RWWaitNamed("c1", first+i, "sf"))
	}
	return all
}

// ListedReaders returns n readers in the form in which a poll lists them.
func ListedReaders(n int) (all []any) {
	for i := range n {
		all = append(all, string(RWWaitNamed("c1", 5000+i, "sf").Wait), 5)
	}
	return all
}

// Holders makes n readers hold the lock. If n is below 0, it stores -n expired
// read holds and one valid hold.
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

// Crowd puts waits that arrived a minute ago into the queue.
func (b *ReadWrite) Crowd(waits ...RWWait) {
	b.Helper()
	b.Stand(time.Minute, waits...)
}

// LastScript returns how long the last script took.
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
