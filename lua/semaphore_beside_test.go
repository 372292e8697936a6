package lua_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/relock-go/relock/internal/script"
)

// A permit that is free is taken, and one is released, in front of the
// functions of the queue. For 2,000 random states of a semaphore, the scripts
// with and without these paths answer the same, and leave the same of what has
// not ended.
func TestSemaphoreScriptsBesideAndInFull(t *testing.T) {
	shortcut{randomPermit, endPermit}.requireSame(t)
}

// endPermit may end a permit.
func endPermit(random *rand.Rand, mode string, locks ...*Queue) (done []string) {
	if random.IntN(8) != 0 {
		return nil
	}
	stale := string("rkv"[random.IntN(3)]) + ":stale:1"
	for _, b := range locks {
		none := len(b.Entries()) == 0
		if b.Put("c"+mode, -time.Second, stale); none {
			b.Do("PEXPIRE", b.Key, 1000) // no lock outlives its last entry by more
		}
	}
	return []string{"ended " + stale}
}

// randomPermit returns a request of one of a few waiters, and what it is. An
// unfair semaphore gets no queue, as time decides who may overtake.
func randomPermit(random *rand.Rand, mode string, _ int) (script.Call, string) {
	n := random.IntN(5) + 1
	w := PermitNamed(fmt.Sprint("c", n), 1, mode, 1+n%3, time.Duration(n%2)*Lease/2)
	calls := []script.Call{
		w.Try(), w.Try(), w.Release(), w.Release(), w.Renew(LongLease), w.Cancel(1), w.Cancel(0), w.Claim(),
		w.Enqueue(), w.EnqueueLimited("", 1),
	}
	if mode == "u" {
		calls = calls[:len(calls)-2]
	}
	i := random.IntN(len(calls))
	return calls[i], fmt.Sprint(i, " ", w)
}
