package script

import (
	"time"

	"github.com/relock-go/relock/internal/redis/driver"
)

// Indeterminate is what is known about requests of one kind that may have been
// executed without an answer.
type Indeterminate struct {
	Last time.Time    // sending of the last unanswered request; zero if there is none
	left *driver.Late // the only unanswered request, if its answer may still come
	// An error line came, or a reply that no script returns. It may have come
	// instead of an answer.
	Error bool
}

// Exists reports whether any request is indeterminate.
func (d Indeterminate) Exists() bool { return d.Error || !d.Last.IsZero() }

// IsLate reports whether a copy of a request may still be executed.
func (d Indeterminate) IsLate() bool { return !d.Last.IsZero() && !d.Resolved() }

// Add returns d after one more result. Another copy of a request that was sent
// again may still be executed. Any of them may be the newest.
func (d Indeterminate) Add(o driver.Result) Indeterminate {
	if o.Resent {
		d = d.Merge(Indeterminate{Last: time.Now()})
	}
	switch {
	case o.Unanswered():
		return d.Merge(Indeterminate{Last: o.Sent, left: o.Abandoned})
	case driver.IsUnexecuted(o.Err):
	case o.Answered && o.Err != nil:
		return d.Merge(Indeterminate{Error: true})
	}
	return d
}

// orUnrecognised marks the request indeterminate if no script can return the
// reply. Whatever was executed did not answer with this.
func (d Indeterminate) orUnrecognised(o driver.Result) Indeterminate {
	if _, read := driver.Status(o.Reply); o.Err == nil && !read {
		d.Error = true
	}
	return d
}

// Merge returns what is indeterminate of d and of other requests.
func (d Indeterminate) Merge(other Indeterminate) Indeterminate {
	switch {
	case other.Last.IsZero():
	case d.Last.IsZero():
		d.Last, d.left = other.Last, other.left
	default:
		if other.Last.After(d.Last) {
			d.Last = other.Last
		}
		d.left = nil
	}
	d.Error = d.Error || other.Error
	return d
}

// Resolved reports whether the only indeterminate request was answered late.
func (d Indeterminate) Resolved() bool { return d.left != nil && d.left.Answered() }
