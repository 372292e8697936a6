package relock

import "github.com/relock-go/relock/internal/script"

// kind is one kind of lock: all that tells it from the others. A new kind is a
// new row below.
type kind struct {
	name      string // as observers get it
	family    family
	options   option    // that it can honour
	wait      byte      // its letter in the names of waits
	queue     *queueing // the scripts that its waits queue with
	writes    bool      // of a read/write lock: its levels write
	passes    bool      // a hold goes to a local waiter without a request
	transfers bool      // a hold goes to a local waiter by one request
}

// family is what kinds share: how their locks are stored, and who owns them.
type family uint8

const (
	plainFamily family = iota
	reentrantFamily
	rwFamily
)

// String returns the family as Info shows it.
func (f family) String() string { return [...]string{"plain", "reentrant", "read/write"}[f] }

// queueing is the scripts with which the waits of a kind queue. All kinds share
// the queue of a lock, the messages and the polls.
type queueing struct{ try, enqueue, claim, cancel, poll *script.Script }

var (
	mutexQueue = &queueing{script.Try, script.Enqueue, script.Claim, script.Cancel, script.Poll}
	rwQueue    = &queueing{script.RWTry, script.RWEnqueue, script.RWClaim, script.RWCancel, script.RWPoll}
)

// commonOptions are those that each kind can honour.
const commonOptions = optBlock | optBlockTimeout | optPollInterval | optExpiry | optWatchdog | optMaxHold | optMinHold | optLabel | optFencing

var (
	kindPlain = &kind{
		name: "plain", options: ^(optOwner | optMaxLease), wait: 'p', queue: mutexQueue, passes: true,
	}
	// kindLocker is a plain lock whose Lock waits as long as its context allows.
	kindLocker = &kind{
		name: "plain", options: kindPlain.options &^ optBlockTimeout, wait: 'p', queue: mutexQueue, passes: true,
	}
	kindReentrant = &kind{
		name: "reentrant", family: reentrantFamily, options: ^optMaxLease, wait: 'r', queue: mutexQueue, transfers: true,
	}
	kindRead = &kind{
		name: "read", family: rwFamily, options: ^(optMinHold | optMaxLease), wait: 's', queue: rwQueue,
	}
	kindWrite = &kind{
		name: "write", family: rwFamily, options: ^(optMinHold | optMaxLease), wait: 'w', queue: rwQueue, writes: true,
	}
	kindMulti = &kind{
		name: "multi", options: commonOptions | optQueueLimit | optReplicas, wait: 'p', queue: mutexQueue,
	}
	kindQuorum = &kind{
		name: "quorum", options: commonOptions | optMaxLease, wait: 'p', queue: mutexQueue,
	}
)

// kindOfWait returns the kind whose waits have this letter, or nil.
func kindOfWait(letter byte) *kind {
	for _, k := range []*kind{kindPlain, kindReentrant, kindRead, kindWrite} {
		if k.wait == letter {
			return k
		}
	}
	return nil
}

// queueOf returns the scripts for a wait by its name.
func queueOf(wait string) *queueing {
	if _, rest := cutHold(wait); rest != "" {
		if k := kindOfWait(rest[0]); k != nil {
			return k.queue
		}
	}
	return mutexQueue
}
