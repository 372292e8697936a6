package driver

import (
	"errors"
	"fmt"
	"io"
	"net"
	"sync/atomic"

	"github.com/gomodule/redigo/redis"
)

// answers reads what a server says on a connection, and counts its answers.
// Redis gives answers no numbers: one more than was asked for, which a broken
// proxy may make, would be taken for that to the next request, a grant among
// them.
type answers struct {
	net.Conn
	// whole counts complete answers. A dial that ends looks at it while a
	// goroutine of redigo may still read.
	whole atomic.Int64

	// Of the one that is being read.
	values int  // that are left of it
	kind   byte // of the line; 0 at its start
	number int  // in the line
	none   bool // the number is negative
	bytes  int  // that are left of a bulk string
}

// errUnasked is why an answer is not believed: there are more than requests,
// and any of them may be the one too many. It breaks the connection.
var errUnasked = fmt.Errorf("%w: an answer that nobody asked for", io.ErrUnexpectedEOF)

func (a *answers) Read(p []byte) (int, error) {
	n, err := a.Conn.Read(p)
	a.count(p[:n])
	return n, err
}

func (a *answers) count(p []byte) {
	for len(p) > 0 {
		if a.bytes == 0 {
			a.take(p[0])
			p = p[1:]
			continue
		}
		n := min(a.bytes, len(p))
		p = p[n:]
		if a.bytes -= n; a.bytes == 0 {
			a.value(0)
		}
	}
}

// take takes one byte of a line.
func (a *answers) take(c byte) {
	switch {
	case a.kind == 0:
		a.kind, a.number, a.none = c, 0, false
	case c == '\n':
		a.line()
	case c == '-':
		a.none = true
	case c >= '0' && c <= '9':
		a.number = a.number*10 + int(c-'0')
	}
}

// line is the end of one.
func (a *answers) line() {
	kind := a.kind
	a.kind = 0
	switch {
	case kind == '$' && !a.none:
		a.bytes = max(a.number, 0) + len("\r\n")
	case kind == '*' && !a.none:
		a.value(a.number)
	default:
		a.value(0)
	}
}

// value is one that was read, or the beginning of one with so many others in
// it.
func (a *answers) value(inside int) {
	if a.values == 0 {
		a.values = 1
	}
	if a.values += inside - 1; a.values == 0 {
		a.whole.Add(1)
	}
}

// between reports whether no part of an answer is missing.
func (a *answers) between() bool { return a.values == 0 && a.kind == 0 && a.bytes == 0 }

// asks counts the requests. The answers to a subscription have no number.
func (c *conn) asks(command string) {
	switch command {
	case "": // only what was sent before is written
	case "SUBSCRIBE":
		c.listens.Store(true)
	default:
		c.asked.Add(1)
	}
}

// hasMore reports whether more answers came than there were requests.
func (c *conn) hasMore() bool {
	return !c.listens.Load() && c.answers.whole.Load() > c.asked.Load()
}

// judge refuses a reply when there are too many. It marks the break of a
// connection on which nothing came.
func (c *conn) judge(reply any, err error) (any, error) {
	switch {
	case err == nil && c.hasMore():
		return nil, errUnasked
	case err != nil && c.answers.whole.Load() == 0:
		return nil, unacceptedError{err}
	}
	return reply, err
}

// rest is what is wrong with a connection that waits for nothing: there was
// more than one answer to a request, or there is something to read, which may
// be the server's end. It asks the server nothing.
func (c *conn) rest() error {
	if c.answers.whole.Load() != c.asked.Load() || !c.answers.between() || c.quiet && c.socket.canRead() {
		return errNotAtRest
	}
	return nil
}

// greeted is what is wrong with a new connection. What the server says before
// it was asked anything is for the first call.
func (c *conn) greeted() error {
	if c.asked.Load() > 0 && c.rest() != nil {
		return errUnasked
	}
	return nil
}

// atRest is what is wrong with an idle connection, where it is one of ours.
func atRest(idle redis.Conn) error {
	if c, ok := idle.(*conn); ok {
		return c.rest()
	}
	return nil
}

var errNotAtRest = errors.New("idle connection has something to say")
