package lockspec

import "github.com/relock-go/relock/internal/script"

// Kind is one kind of lock: all that distinguishes it from the others. A new
// kind is a new row below.
type Kind struct {
	name      string // for observers
	Family    Family
	options   Option // the options that it honours
	Wait      byte   // its letter in the names of waiters
	Queue     *Queue // the scripts that its waiters queue with
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
)

// String returns the family as Info shows it.
func (f Family) String() string { return [...]string{"plain", "reentrant", "read/write"}[f] }

// Queue has the scripts that the waiters of a kind queue with. All kinds share
// the queue of a lock, the messages and the polls.
type Queue struct{ Try, Enqueue, Claim, Cancel, Poll *script.Script }

// The scripts of all families. A read/write lock has its own.
var (
	MutexQueue = &Queue{script.Try, script.Enqueue, script.Claim, script.Cancel, script.Poll}
	RWQueue    = &Queue{script.RWTry, script.RWEnqueue, script.RWClaim, script.RWCancel, script.RWPoll}
)

// commonOptions are the options that each kind honours.
const commonOptions = OptBlock | OptBlockTimeout | OptPollInterval | OptExpiry | OptWatchdog | OptMaxHold | OptMinHold | OptLabel | OptFencing

// The kinds of locks.
var (
	Plain = &Kind{
		name: "plain", options: ^OptMaxLease, Wait: 'p', Queue: MutexQueue, Passes: true,
	}
	// Locker is a plain lock whose Lock waits for as long as its context
	// allows.
	Locker = &Kind{
		name: "plain", options: Plain.options &^ OptBlockTimeout, Wait: 'p', Queue: MutexQueue, Passes: true, Nests: true,
	}
	Reentrant = &Kind{
		name: "reentrant", Family: ReentrantFamily, options: ^OptMaxLease, Wait: 'r', Queue: MutexQueue, Transfers: true,
	}
	Read = &Kind{
		name: "read", Family: RWFamily, options: ^(OptMinHold | OptMaxLease), Wait: 's', Queue: RWQueue,
	}
	Write = &Kind{
		name: "write", Family: RWFamily, options: ^(OptMinHold | OptMaxLease), Wait: 'w', Queue: RWQueue, Writes: true,
	}
	Multi = &Kind{
		name: "multi", options: commonOptions | OptQueueLimit | OptReplicas, Wait: 'p', Queue: MutexQueue,
	}
	Quorum = &Kind{
		name: "quorum", options: commonOptions | OptMaxLease, Wait: 'p', Queue: MutexQueue,
	}
)

// Delivery is the kind of a delivery of a task queue. It is no lock: nobody
// waits for it, and no option is meant for it.
var Delivery = &Kind{name: "delivery", Queue: MutexQueue}

// resumed are the options of a hold that is resumed. The others belong to the
// call that acquired it, or travel in its token.
const resumed = OptExpiry | OptWatchdog | OptMaxHold | OptLabel | OptReplicas

var (
	resumedPlain     = Plain.only(resumed)
	resumedReentrant = Reentrant.only(resumed)
)

// only returns the same kind with these options.
func (k *Kind) only(options Option) *Kind {
	other := *k
	other.options = options
	return &other
}

// KindOfWait returns the kind whose waiters have this letter, or nil.
func KindOfWait(letter byte) *Kind {
	for _, k := range []*Kind{Plain, Reentrant, Read, Write} {
		if k.Wait == letter {
			return k
		}
	}
	return nil
}

// QueueOf returns the scripts for the waiter with this name.
func QueueOf(wait string) *Queue {
	if _, rest := CutHold(wait); rest != "" {
		if k := KindOfWait(rest[0]); k != nil {
			return k.Queue
		}
	}
	return MutexQueue
}
