package relock

import (
	"slices"
	"strings"

	"github.com/relock-go/relock/internal/kinds/multilock"
	"github.com/relock-go/relock/internal/lockspec"
)

// MultiLock locks several keys together: all of them or none. Each key is held
// as by a [RedisLock], and the two exclude each other. It is neither reentrant
// nor fair.
//
// One attempt is one script, which takes the keys if all are free. A call that
// waits queues for the first key, in alphabetical order, that others hold, and
// for no other. When that key is handed to it, the call tries all keys again.
// If another key is held, the call immediately returns the key that it was
// handed.
//
// A call that was handed four keys in vain then keeps the keys that sort before
// the one it waits for. This lets it succeed against callers that lock the keys
// one by one without a pause. Kept keys are no hold. Others see them as held,
// for at most half of the lease, and at most 2.5 seconds with the default poll
// interval. Then the call returns them and starts again. A caller that holds
// one of the keys and waits for another is delayed for that long.
//
// All calls keep keys in one order, so no two MultiLocks wait for each other.
// If the waits for its keys together take longer than that limit, a call may
// starve. MultiLocks of the same keys take turns, in no promised order.
//
// Keys of several slots of a Cluster, or of several servers, cannot go in one
// script. The first attempt requests them all together, with a script for each
// slot or server, and so does each attempt of a waiter that was handed a key.
// If one is refused, the others are released. A call that does not wait, or
// that keeps keys, goes on with one key after another, in alphabetical order.
// Two calls that do not wait may then both be refused, though either could
// have had all keys. With [WithReplicas] the first attempt takes one key after
// another, too.
//
// The hold is that of all keys. Its context is cancelled when any of them is
// lost, and it is valid until the first of them ends. Renewal, Extend and
// Unlock act on each key separately. Its fencing token is higher than those of
// all earlier holds of any of the keys.
//
// [ErrLockAcquiredByOthers] and [ErrKeyConflict] name the first key that they
// are about. Unlock returns [ErrLockLost] if any key was lost, otherwise
// [ErrUnconfirmed] if any release was not confirmed.
//
// Goroutines may share it, like a RedisLock.
type MultiLock struct {
	base
	multi *multilock.Lock
}

// maxKeys limits the work of one script.
const maxKeys = 100

// NewMultiLock returns the lock of these names on client: 1 to 100 different
// ones, in any order. A name that is given twice counts once. It is cheap, does
// no I/O and needs no closing. Names are 1 to 1024 bytes, and do not start with
// a closing brace.
//
// By default Lock makes one attempt, and a hold is renewed until Unlock.
// [WithQueueLimit] applies to the one queue in which the call would wait.
// [WithFair] is for other kinds.
func NewMultiLock(keys []string, client *Client, opts ...LockOption) *MultiLock {
	keys = slices.Compact(slices.Sorted(slices.Values(keys)))
	var m lockspec.Problems
	m.Check(len(keys) > 0, "keys: is empty")
	m.Check(len(keys) <= maxKeys, "keys: %d are above %d", len(keys), maxKeys)
	for _, key := range keys {
		lockspec.CheckKey(&m, key)
	}
	l := &MultiLock{base: newBaseWith(m, strings.Join(keys, ","), client, opts, lockspec.Multi)}
	l.multi = multilock.New(&l.target, keys)
	l.use(l.multi)
	return l
}
