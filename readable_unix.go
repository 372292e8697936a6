//go:build unix

package relock

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

// canRead says that a read would not block: what waitReadable waits for has come.
func canRead(raw syscall.RawConn) bool {
	can := true
	_ = raw.Control(func(fd uintptr) { can = !blocks(fd) }) // one that was closed can be read, which says so
	return can
}

// waitReadable returns when a read would not block: an answer, the end of the connection, or its failure. It
// consumes nothing. Its error is that of the read deadline, or of a socket that was closed.
func waitReadable(raw syscall.RawConn) error {
	return raw.Read(func(fd uintptr) bool { return !blocks(fd) })
}

// blocks says that a read would.
func blocks(fd uintptr) bool {
	var one [1]byte
	for {
		_, _, err := syscall.Recvfrom(int(fd), one[:], syscall.MSG_PEEK)
		if err != syscall.EINTR {
			return err == syscall.EAGAIN
		}
	}
}
