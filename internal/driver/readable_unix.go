//go:build unix

package driver

import (
	"net"
	"syscall"
)

const canWait = true

// rawConn is the socket under conn, to wait on.
func rawConn(conn net.Conn) syscall.RawConn {
	if c, ok := conn.(syscall.Conn); ok {
		if raw, err := c.SyscallConn(); err == nil {
			return raw
		}
	}
	return nil
}

// canRead reports whether a read would not block: what waitReadable waits for
// has come. One that was closed can be read, which says so.
func (s *socket) canRead() bool {
	if s.peek == nil { // kept, as each command on a pooled connection asks
		s.peek = func(fd uintptr) { s.speaks = !blocks(fd) }
	}
	s.speaks = true
	_ = s.raw.Control(s.peek) // its error is that of a closed one
	return s.speaks
}

// waitReadable returns when a read would not block: an answer, the end of the
// connection, or its failure. It consumes nothing. Its error is that of the
// read deadline, or of a socket that was closed.
func waitReadable(raw syscall.RawConn) error {
	return raw.Read(func(fd uintptr) bool { return !blocks(fd) })
}

// blocks reports whether a read would block.
func blocks(fd uintptr) bool {
	var one [1]byte
	for {
		_, _, err := syscall.Recvfrom(int(fd), one[:], syscall.MSG_PEEK)
		if err != syscall.EINTR {
			return err == syscall.EAGAIN
		}
	}
}
