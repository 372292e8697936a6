package relock

import (
	"slices"
	"strings"

	"github.com/relock-go/relock/internal/acquire"
	"github.com/relock-go/relock/internal/lockspec"
)

// MultiLock locks several keys at once: all of them or none. Each key is held
// as by a [RedisLock], and the two exclude each other. It is neither reentrant
// nor fair.
//
// One attempt is one script, which takes the keys if all are free. A call that
// waits queues for the first key, in alphabetical order, that others hold, and
// for no other. When it is handed that key it tries all again. If another one
// is held it returns the key immediately.
//
// A call that was handed four keys in vain keeps, from then on, the keys that
// sort before the one it waits for. So it also gets in beside callers that lock
// the keys one by one without a pause. Kept keys are no hold: others see them
// as held, for at most half of the lease, and at most 2.5 seconds with the
// default poll interval. Then the call returns them and starts again. A caller
// that holds one of the keys and waits for another is delayed for that long.
// Since all calls keep keys in one order, no two MultiLocks wait for each
// other. If the waits for its keys together take longer than that, a call may
// starve. MultiLocks of the same keys take turns, in no promised order.
//
// A server that refuses keys of several slots together, such as a node of a
// Cluster, is asked for one key after another, in alphabetical order.
//
// The hold is that of all keys: its context ends when any of them is lost, and
// it is valid until the first of them ends. Renewal, Extend and Unlock are for
// each key by itself. Its fencing token is higher than those of all holds of
// any of the keys before it.
//
// [ErrLockAcquiredByOthers] and [ErrKeyConflict] name the first key that they
// are about. Unlock returns [ErrLockLost] if any key was lost, otherwise
// [ErrUnconfirmed] if any release was not confirmed.
//
// It may be shared by goroutines, as a RedisLock may.
type MultiLock struct {
	base
	multi *acquire.Multi
}

// maxKeys limits what one script does.
const maxKeys = 100

// NewMultiLock returns the lock of these names on client: 1 to 100 different ones, in any order. It is cheap, does no I/O
// and needs no closing. Names are 1 to 1024 bytes and do not start with a closing brace.
// A name that is given twice counts once.
//
// By default Lock makes one attempt, and a hold is renewed until Unlock. [WithQueueLimit] is about the one queue that the
// call would wait in. [WithFair] and [WithOwner] are for other kinds.
func NewMultiLock(keys []string, client *Client, opts ...LockOption) *MultiLock {
	keys = slices.Compact(slices.Sorted(slices.Values(keys)))
	var m lockspec.Problems
	m.Check(len(keys) > 0, "keys: there are none")
	m.Check(len(keys) <= maxKeys, "keys: more than %d", maxKeys)
	for _, key := range keys {
		lockspec.CheckKey(&m, key)
	}
	l := &MultiLock{base: newBaseWith(m, strings.Join(keys, ","), client, opts, lockspec.Multi)}
	l.multi = acquire.NewMulti(&l.target, keys)
	l.use(l.multi)
	return l
}
