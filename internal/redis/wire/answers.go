package wire

import (
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"sync/atomic"

	"github.com/gomodule/redigo/redis"
)

// answers reads what a server sends on a connection, and counts its answers.
// Redis does not number its answers. A broken proxy may make one more than was
// requested. That would be taken for the answer to the next request, and may be
// a grant.
type answers struct {
	net.Conn
	// whole counts complete answers. It is atomic: a call that ends reads
	// it while its goroutine may still read from the connection.
	whole atomic.Int64

	// The state of the answer that is being read.
	values int    // missing from it
	kind   byte   // of the line; 0 at its start
	number uint64 // in the line
	none   bool   // the number is negative
	bytes  int    // missing from a bulk string
	cost   int    // of what is there and what is announced, see costs
	absurd bool   // it is refused, and so is all that follows
}

const (
	// maxCost is what an answer may cost. A byte costs 1, an array also 16
	// for each value and 1 KiB: it is parsed by a function that calls
	// itself. So no answer takes more than some hundred MiB of memory or
	// stack.
	maxCost   = 512 << 20
	arrayCost = 1 << 10
	valueCost = 16
)

var errProtocol = errors.New("the server's answer is not in the protocol of Redis")

// ErrAbsurd is the error of an answer with a number that no int64 can have, or
// which is larger than any that relock asks for.
var ErrAbsurd = fmt.Errorf("%w: a number or an answer is too large", errProtocol)

// ErrUnasked is the error of an answer if there are more answers than requests.
// Any of them may be the surplus one, so none counts. It breaks the connection.
var ErrUnasked = fmt.Errorf("%w: an answer without a request", io.ErrUnexpectedEOF)

// Read returns an error in place of what was read if an answer is refused.
func (a *answers) Read(p []byte) (int, error) {
	n, err := a.Conn.Read(p)
	if refused := a.count(p[:n]); refused != nil {
		return 0, refused
	}
	return n, err
}

// count counts the answers in what was read.
func (a *answers) count(p []byte) error {
	for len(p) > 0 && !a.absurd {
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
	if a.absurd {
		return ErrAbsurd
	}
	return nil
}

// take handles one byte of a line.
func (a *answers) take(c byte) {
	a.costs(1)
	switch {
	case a.kind == 0:
		a.kind, a.number, a.none = c, 0, false
	case c == '\n':
		a.line()
	case c == '-':
		a.none = true
	case c >= '0' && c <= '9':
		// Any number above 1<<60 with one digit more is above each
		// int64, and stays so.
		a.number = min(a.number, 1<<60)*10 + uint64(c-'0')
	}
}

// costs refuses the answer if it costs too much.
func (a *answers) costs(n uint64) {
	if n > maxCost || a.cost+int(n) > maxCost {
		a.absurd = true
		return
	}
	a.cost += int(n)
}

// line handles the end of a line.
func (a *answers) line() {
	kind := a.kind
	a.kind = 0
	switch {
	case kind == '$' && !a.none:
		a.costs(a.number)
		a.bytes = int(min(a.number, maxCost)) + len("\r\n")
	case kind == '*' && !a.none:
		a.costs(arrayCost)
		a.costs(min(a.number, maxCost) * valueCost)
		a.value(int(min(a.number, maxCost)))
	case kind == ':' && a.number > math.MaxInt64 && (!a.none || a.number > -math.MinInt64):
		a.absurd = true
	default:
		a.value(0)
	}
}

// value notes that a value was read, or the start of an array with inside
// values.
func (a *answers) value(inside int) {
	if a.values == 0 {
		a.values = 1
	}
	if a.values += inside - 1; a.values == 0 && !a.absurd {
		a.cost = 0
		a.whole.Add(1)
	}
}

// between reports whether no answer is incomplete.
func (a *answers) between() bool { return a.values == 0 && a.kind == 0 && a.bytes == 0 }

// asks counts a request. A subscription is not counted, since any number of
// answers may follow.
func (c *Conn) asks(command string) {
	switch command {
	case "SUBSCRIBE", "UNSUBSCRIBE", "SSUBSCRIBE", "SUNSUBSCRIBE":
		c.listens.Store(true)
	default:
		c.asked.Add(1)
	}
}

// hasMore reports whether there were more answers than requests.
func (c *Conn) hasMore() bool {
	return !c.listens.Load() && c.answers.whole.Load() > c.asked.Load()
}

// judge refuses a reply if there are more answers than requests. It marks the
// error of a connection that broke before its first answer.
func (c *Conn) judge(reply any, err error) (any, error) {
	switch {
	case err == nil && c.hasMore():
		return nil, ErrUnasked
	case err == ErrInterrupted || err == ErrUnwritten: //nolint:errorlint // our own sentinels
		return nil, err // the connection is whole
	case err != nil && c.answers.whole.Load() == 0:
		return nil, UnacceptedError{err, c.quiet}
	}
	return reply, err
}

// Rest returns an error if an idle connection must not be used. There may have
// been more than one answer to a request. Or there is something to read, which
// may be that the server closed the connection. Rest sends nothing.
func (c *Conn) Rest() error {
	if c.answers.whole.Load() != c.asked.Load() || !c.answers.between() || c.quiet && c.socket.canRead() {
		return errNotAtRest
	}
	return nil
}

// checkGreeting returns an error if a new connection must not be used. What the
// server sends before any request is for the first call.
func (c *Conn) checkGreeting() error {
	if c.asked.Load() > 0 && c.Rest() != nil {
		return ErrUnasked
	}
	return nil
}

// AtRest returns an error if an idle connection must not be used. It checks
// only connections that this package dialled.
func AtRest(idle redis.Conn) error {
	if c, ok := idle.(*Conn); ok {
		return c.Rest()
	}
	return nil
}

var errNotAtRest = errors.New("unexpected data on idle connection")
