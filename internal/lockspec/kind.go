package lockspec

import "github.com/relock-go/relock/internal/script"

// Kind is one kind of lock: all that distinguishes it from the others. A new
// kind is a new row below.
type Kind struct {
	name      string // for observers
	maker     string // what users make it with, for errors
	Family    Family
	options   Option // the options that it honours
	Wait      byte   // its letter in the names of waiters
	Queue     *Queue // the scripts that its waiters queue with
	Counted   bool   // a lock has several holds at a time, as many as it has permits
	Writes    bool   // for a read/write lock: its levels write
	Passes    bool   // a hold goes to a local waiter without a request
	Transfers bool   // a hold goes to a local waiter by one request
	Nests     bool   // a plain lock: a call adds a level to a hold that its context carries
}

// Family is what kinds share: how their locks are stored, and who owns them.
type Family uint8

// The families.
const (
	PlainFamily Family = iota
	ReentrantFamily
	RWFamily
	SemaphoreFamily
)

// String returns the family as Info shows it.
func (f Family) String() string {
	return [...]string{"plain", "reentrant", "read/write", "semaphore"}[f]
}

// Queue has the scripts that the waiters of a kind queue with. All kinds share
// the queue of a lock, the messages and the polls. A RedLock has a list at each
// node instead, and its waiters claim nothing there.
type Queue struct{ Try, Enqueue, Claim, Cancel, Poll *script.Script }

// The scripts of all families. A read/write lock and a semaphore have their
// own.
var (
	mutexQueue     = &Queue{script.Try, script.Enqueue, script.Claim, script.Cancel, script.Poll}
	rwQueue        = &Queue{script.RWTry, script.RWEnqueue, script.RWClaim, script.RWCancel, script.RWPoll}
	semaphoreQueue = &Queue{
		script.SemaphoreTry, script.SemaphoreEnqueue, script.SemaphoreClaim, script.SemaphoreCancel,
		script.SemaphorePoll,
	}
	quorumQueue = &Queue{Cancel: script.RedLockUnwait}
)

// commonOptions are the options that each kind honours.
const commonOptions = OptBlock | OptBlockTimeout | OptPollInterval | OptExpiry | OptWatchdog | OptMaxHold | OptMinHold |
	OptLabel | OptFencing

// The kinds of locks.
var (
	Plain = &Kind{
		name: "plain", maker: "RedisLock", options: ^OptMaxLease, Wait: 'p', Queue: mutexQueue, Passes: true,
	}
	// Locker is a plain lock whose Lock waits for as long as its context
	// allows.
	Locker = &Kind{
		name: "plain", maker: "Locker", options: Plain.options &^ OptBlockTimeout, Wait: 'p', Queue: mutexQueue,
		Passes: true, Nests: true,
	}
	Reentrant = &Kind{
		name: "reentrant", maker: "ReentrantLock", Family: ReentrantFamily, options: ^OptMaxLease,
		Wait: 'r', Queue: mutexQueue, Transfers: true,
	}
	Read = &Kind{
		name: "read", maker: "RWLock", Family: RWFamily, options: ^(OptMinHold | OptMaxLease), Wait: 's', Queue: rwQueue,
	}
	Write = &Kind{
		name: "write", maker: "RWLock", Family: RWFamily, options: ^(OptMinHold | OptMaxLease), Wait: 'w', Queue: rwQueue,
		Writes: true,
	}
	Semaphore = &Kind{
		name: "semaphore", maker: "Semaphore", Family: SemaphoreFamily, options: ^(OptFencing | OptMaxLease),
		Wait: 'c', Queue: semaphoreQueue, Counted: true,
	}
	Multi = &Kind{
		name: "multi", maker: "MultiLock", options: commonOptions | OptQueueLimit | OptReplicas, Wait: 'p', Queue: mutexQueue,
	}
	Quorum = &Kind{
		name: "quorum", maker: "RedLock", options: commonOptions | OptMaxLease, Wait: 'q', Queue: quorumQueue,
	}
)

// Delivery is the kind of a delivery of a task queue. It is no lock: nobody
// waits for it, and no option is meant for it.
var Delivery = &Kind{name: "delivery", Queue: mutexQueue}

// resumed are the options of a hold that is resumed. The others belong to the
// call that acquired it, or travel in its token.
const resumed = OptExpiry | OptWatchdog | OptMaxHold | OptLabel | OptReplicas

var (
	resumedPlain     = Plain.only("Resume", resumed)
	resumedReentrant = Reentrant.only("Resume", resumed)
)

// only returns the same kind with these options, made in another way.
func (k *Kind) only(maker string, options Option) *Kind {
	other := *k
	other.maker, other.options = maker, options
	return &other
}

// kinds has the first row of each way to wait, and of each family.
var kinds = [...]*Kind{Plain, Reentrant, Read, Write, Semaphore, Quorum}

// kindOfWait returns the kind whose waiters have this letter, or nil.
func kindOfWait(letter byte) *Kind {
	for _, k := range kinds {
		if k.Wait == letter {
			return k
		}
	}
	return nil
}

// QueueOf returns the scripts for the waiter with this name.
func QueueOf(wait string) *Queue {
	if _, rest := CutHold(wait); rest != "" {
		if k := kindOfWait(rest[0]); k != nil {
			return k.Queue
		}
	}
	return mutexQueue
}
