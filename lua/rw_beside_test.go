package lua_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/relock-go/relock/internal/script"
)

// A lock that is free, or read, is taken, and a hold is released, in front of
// the functions of the queue if nobody waits. For 2,000 random states of a
// lock, the scripts with and without these paths answer the same, and leave the
// same of what has not ended.
func TestRWScriptsBesideAndInFull(t *testing.T) {
	shortcut{randomRW, endRW}.requireSame(t)
}

// endRW may end an entry of a lock, or all of them, or one of several readers.
func endRW(random *rand.Rand, mode string, locks ...*Queue) (done []string) {
	if random.IntN(8) == 0 {
		stale := string("rw"[random.IntN(2)]) + ":stale:1"
		for _, b := range locks {
			b.Clear()
			b.Put(mode, -time.Second, stale)
		}
		done = append(done, "ended "+stale)
	}
	if random.IntN(8) == 0 && isRead(locks[0]) {
		for _, b := range locks {
			b.Put(mode, -time.Second, "r:other:1")
		}
		done = append(done, "ended r:other:1")
	}
	if random.IntN(8) == 0 {
		for _, b := range locks {
			b.Do("DEL", b.Key)
		}
		done = append(done, "all have ended")
	}
	return done
}

// isRead reports whether a lock has entries, and all are readers.
func isRead(b *Queue) bool {
	entries := b.Entries()
	for _, entry := range entries {
		if !strings.HasPrefix(entry, "r:") {
			return false
		}
	}
	return len(entries) > 0
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
