package script

import (
	"time"

	"github.com/relock-go/relock/internal/driver"
)

// Indeterminate is what is known about the requests of one kind that were never
// answered.
type Indeterminate struct {
	Last  time.Time    // sending of the last unanswered one; zero when there is none
	left  *driver.Call // the only one, when its answer may still come
	Error bool         // something else came, perhaps instead of an answer: an error line, or what no script says
}

// Exists reports whether any request is indeterminate.
func (d Indeterminate) Exists() bool { return d.Error || !d.Last.IsZero() }

// Add takes one more outcome into account.
func (d Indeterminate) Add(o driver.Result) Indeterminate {
	switch {
	case o.Unanswered():
		return d.Merge(Indeterminate{Last: o.Sent, left: o.Abandoned})
	case driver.IsReadOnly(o.Err): // nothing was done
	case o.Answered && o.Err != nil:
		return d.Merge(Indeterminate{Error: true})
	}
	return d
}

// orUnrecognised takes an answer into account that no script gives: whatever
// was executed, it was not this that has answered.
func (d Indeterminate) orUnrecognised(o driver.Result) Indeterminate {
	reply := o.Reply
	if values, ok := reply.([]any); ok && len(values) > 0 {
		reply = values[0]
	}
	if _, read := reply.(int64); o.Err == nil && !read {
		d.Error = true
	}
	return d
}

// Merge takes the doubt about other requests into account.
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
