package lease

import (
	"time"

	"github.com/relock-go/relock/internal/script"
)

// remote is what the server has of a lease, or may still get. Its release has
// to end all of that. The mutex of the lease guards it, except for protocol,
// which never changes.
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

// succeed notes that the hold may have become successor there, by a request
// that left d open. The release then ends either.
func (r *remote) succeed(successor string, d script.Indeterminate) {
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

// leave returns the release that leaves some levels, and counts it. If none are
// left, the key stays until keep.
func (r *remote) leave(levels Levels, keep time.Time, of whole) leaving {
	r.seq++
	return leaving{r, levels, r.seq, keep, of, r.ending}
}

// leaving is the release that leaves some levels, as it is sent each time.
type leaving struct {
	remote *remote // for its protocol, which never changes
	levels Levels
	seq    int
	keep   time.Time // the key stays until then if no level is left
	whole  whole
	ending *ending
}

// call returns the release as it is sent now.
func (r *leaving) call(now time.Time) script.Call {
	rest := max(0, r.keep.Sub(now)+time.Millisecond-1).Truncate(time.Millisecond) // rounded up
	if !r.whole.isReturned() {
		rest = 0 // nobody got the hold of the group
	}
	s := r.remote.protocol.Release(r.levels, r.seq, rest)
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
func (r leaving) again() func(now time.Time) script.Call { return r.call }
