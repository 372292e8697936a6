package relock

import (
	"time"

	"github.com/relock-go/relock/internal/driver"
)

// doubt is what is known about the requests of one kind that were never answered.
type doubt struct {
	last  time.Time    // sending of the last unanswered one; zero when there is none
	left  *driver.Call // the only one, when its answer may still come
	error bool         // something else came, perhaps instead of an answer: an error line, or what no script says
}

func (d doubt) exists() bool { return d.error || !d.last.IsZero() }

// add takes one more outcome into account.
func (d doubt) add(o driver.Result) doubt {
	switch {
	case o.Unanswered():
		return d.merge(doubt{last: o.Sent, left: o.Abandoned})
	case driver.IsReadOnly(o.Err): // nothing was done
	case o.Answered && o.Err != nil:
		return d.merge(doubt{error: true})
	}
	return d
}

// orUnread takes an answer into account that no script gives: whatever was executed, it was not this that has answered.
func (d doubt) orUnread(o driver.Result) doubt {
	reply := o.Reply
	if values, ok := reply.([]any); ok && len(values) > 0 {
		reply = values[0]
	}
	if _, read := reply.(int64); o.Err == nil && !read {
		d.error = true
	}
	return d
}

// merge takes the doubt about other requests into account.
func (d doubt) merge(other doubt) doubt {
	switch {
	case other.last.IsZero():
	case d.last.IsZero():
		d.last, d.left = other.last, other.left
	default:
		d.last, d.left = later(d.last, other.last), nil
	}
	d.error = d.error || other.error
	return d
}

// settled says that there is no doubt any more: the one request in doubt was answered late.
func (d doubt) settled() bool { return d.left != nil && d.left.Answered() }

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
