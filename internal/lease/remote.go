package lease

import (
	"time"

	"github.com/relock-go/relock/internal/script"
)

// remote is what the server has of a lease, or may still get. Its release has
// to end all of that. The mutex of the lease guards it, except for protocol,
// which never changes. What ends the lease reads indeterminate and undo
// without it: then no other goroutine sets them.
type remote struct {
	protocol      Protocol
	indeterminate script.Indeterminate        // acquire requests whose answers never came
	undo          func(time.Time) script.Call // cancels the granted queue entry; nil if there was none
	claim         *claim                      // of a grant by message, until it is answered; else nil
	ending        *ending                     // what else its release ends; nil if nothing
	seq           int                         // number of the last change of the levels
	maxRequested  time.Duration               // the longest lease that was requested
}

// ending is what the release of a lease ends besides its hold, for a lock that
// was handed off in this process, or granted by a message. It never changes.
type ending struct {
	retained string // name of the retained queue entry; "" if there is none
	// Hold that an indeterminate transfer may have made of it, or the
	// reservation that its claim may have left; "" if there is none.
	successor string
}

// setSuccessor notes that the hold may have become successor there. The release
// then ends either. d are the requests that may still take the lock.
func (r *remote) setSuccessor(successor string, d script.Indeterminate) {
	r.ending, r.indeterminate, r.undo = &ending{successor: successor}, d, nil
}

// retain has the release remove this queue entry too.
func (r *remote) retain(entry string) {
	var end ending
	if r.ending != nil {
		end = *r.ending
	}
	end.retained = entry
	r.ending = &end
}

// request notes that a lease of this length is about to be requested. The key
// may then stay that long, even if no answer comes.
func (r *remote) request(length time.Duration) { r.maxRequested = max(r.maxRequested, length) }

// doubts returns the requests that may still take the lock.
func (r *remote) doubts() script.Indeterminate {
	c := r.claim
	if c == nil {
		return r.indeterminate
	}
	d := r.indeterminate.Merge(c.doubts)
	if c.sent {
		d = d.Merge(script.Indeterminate{Last: time.Now()})
	}
	return d
}

// change returns the next change of the levels, and counts it. If none are
// left, the key stays until keep.
func (r *remote) change(to Levels, keep time.Time, of whole) change {
	r.seq++
	return change{r.protocol, to, r.seq, keep, of, r.ending}
}

// change is a change of the levels that leaves some of them, or a release that
// leaves none, as it is sent each time. It keeps no lease in memory, as the
// retrier may have it for long.
type change struct {
	protocol Protocol
	levels   Levels
	seq      int
	keep     time.Time // the key stays until then if no level is left
	whole    whole
	ending   *ending
}

// call returns the release as it is sent now.
func (r *change) call(now time.Time) script.Call {
	rest := max(0, r.keep.Sub(now)+time.Millisecond-1).Truncate(time.Millisecond) // rounded up
	if !r.whole.isReturned() {
		rest = 0 // nobody got the hold of the group
	}
	s := r.protocol.Release(r.levels, r.seq, rest)
	if r.ending != nil {
		s.Args = append(s.Args, r.ending.retained)
		if r.ending.successor != "" {
			s.Args = append(s.Args, r.ending.successor)
		}
	}
	return s
}

// again returns call for the retrier. It uses a copy, so that a release that is
// sent once stays off the heap.
func (r change) again() func(now time.Time) script.Call { return r.call }
