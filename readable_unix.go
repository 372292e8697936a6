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

// waitReadable returns when a read would not block: an answer, the end of the connection, or its failure. It
// consumes nothing. Its error is that of the read deadline, or of a socket that was closed.
func waitReadable(raw syscall.RawConn) error {
	return raw.Read(func(fd uintptr) bool {
		var one [1]byte
		for {
			_, _, err := syscall.Recvfrom(int(fd), one[:], syscall.MSG_PEEK)
			if err != syscall.EINTR {
				return err != syscall.EAGAIN
			}
		}
	})
}
