package wire

import (
	"net"
	"sync"
	"syscall"

	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/goroutines"
)

// Sockets are the open connections of a client, so that Close can close them
// under the calls that wait for an answer.
type Sockets struct {
	tasks *goroutines.Group

	mu     sync.Mutex
	open   map[*socket]struct{}
	closed bool
}

type socket struct {
	net.Conn
	raw syscall.RawConn // to wait on
	all *Sockets

	// For canRead and exchange, which only the current user of the connection
	// calls.
	peek    func(fd uintptr)
	speaks  bool
	step    func(fd uintptr) bool
	out, in []byte
	written int
	n       int
	failed  error
}

// NewSockets returns an empty set, whose goroutines are those of the group.
func NewSockets(t *goroutines.Group) *Sockets {
	return &Sockets{tasks: t, open: map[*socket]struct{}{}}
}

func (s *Sockets) add(conn net.Conn) (*socket, error) {
	added := &socket{Conn: conn, raw: rawConn(conn), all: s}
	if !s.keep(added) {
		_ = conn.Close() // not used yet
		return nil, errs.ErrClosed
	}
	return added, nil
}

func (s *Sockets) keep(added *socket) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.open[added] = struct{}{}
	}
	return !s.closed
}

// Count returns how many sockets are open.
func (s *Sockets) Count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.open)
}

// Close closes all sockets, and those that are opened later.
func (s *Sockets) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for open := range s.open {
		_ = s.closeLocked(open) // only to end its reader
	}
}

// closeLocked closes an open connection. That of a user's dialer may block, and
// must delay neither the caller nor Close.
func (s *Sockets) closeLocked(c *socket) error {
	delete(s.open, c)
	switch c.Conn.(type) {
	case *net.TCPConn, *net.UnixConn:
		return c.Conn.Close()
	}
	s.tasks.Start(func() {
		_, _ = guarded("a connection of the dialer", func() (any, error) { return nil, c.Conn.Close() })
	})
	return nil
}

// Close closes the connection, once.
func (c *socket) Close() error {
	c.all.mu.Lock()
	defer c.all.mu.Unlock()
	if _, open := c.all.open[c]; !open {
		return nil
	}
	return c.all.closeLocked(c)
}
