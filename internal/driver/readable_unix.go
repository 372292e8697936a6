//go:build unix

package driver

import (
	"net"
	"syscall"
)

const canWait = true

// rawConn returns the socket under conn, to wait on. It returns nil if conn has
// none, or may keep what was read from it in a buffer.
func rawConn(conn net.Conn) syscall.RawConn {
	switch conn.(type) {
	case *net.TCPConn, *net.UnixConn:
		if raw, err := conn.(syscall.Conn).SyscallConn(); err == nil {
			return raw
		}
	}
	return nil
}

// canRead reports whether a read would not block: what waitReadable waits for
// has come. A closed socket is readable, and the read returns an error.
func (s *socket) canRead() bool {
	if s.peek == nil { // kept, because each command on a pooled connection needs it
		s.peek = func(fd uintptr) { s.speaks = !blocks(fd) }
	}
	s.speaks = true
	_ = s.raw.Control(s.peek) // it fails on a closed socket
	return s.speaks
}

// waitReadable returns when a read would not block: there is an answer, or the
// connection has ended or failed. It consumes nothing. Its error is that of the
// read deadline, or of a closed socket.
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
