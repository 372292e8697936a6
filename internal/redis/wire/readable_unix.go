//go:build unix

package wire

import (
	"errors"
	"io"
	"net"
	"os"
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

// canRead reports whether a read would not block: there is an answer. A closed
// socket is readable, and the read returns an error.
func (s *socket) canRead() bool {
	if s.peek == nil { // kept, because each command on a pooled connection needs it
		s.peek = func(fd uintptr) { s.speaks = !blocks(fd) }
	}
	s.speaks = true
	_ = s.raw.Control(s.peek) // it fails on a closed socket
	return s.speaks
}

// exchange writes out, and then reads to in once there is something to read. It
// returns how much of out was written. If that is not all, it has not read.
//
// The write is part of the wait. So an answer that comes right after it ends
// the wait, and no read has to find out whether it is there. The read deadline
// ends the wait.
func (s *socket) exchange(out, in []byte) (written, n int, err error) {
	if s.step == nil { // kept, because each command on a pooled connection needs it
		s.step = s.transfer
	}
	s.out, s.in, s.written, s.n, s.failed = out, in, 0, 0, nil
	err = asRead(s.raw.Read(s.step))
	if s.failed != nil {
		err = s.failed
	}
	s.in, s.out = nil, nil
	return s.written, s.n, err
}

// transfer is a step of exchange. It reports whether the wait is over.
func (s *socket) transfer(fd uintptr) (done bool) {
	if len(s.out) > 0 {
		n, err := again(syscall.Write, int(fd), s.out)
		if err != nil && err != syscall.EAGAIN { //nolint:errorlint // an Errno
			s.failed = s.fault("write", err)
			return true
		}
		s.written = max(n, 0)
		all := s.written == len(s.out)
		s.out = nil
		return !all
	}
	n, err := again(syscall.Read, int(fd), s.in)
	switch {
	case err == syscall.EAGAIN: //nolint:errorlint // an Errno
		return false
	case err != nil:
		s.failed = s.fault("read", err)
	case n == 0:
		s.failed = io.EOF
	}
	s.n = max(n, 0)
	return true
}

// asRead names the wait for an answer in an error as that of a connection.
func asRead(err error) error {
	if err == nil {
		return nil // before op, which is on the heap
	}
	var op *net.OpError
	if !errors.As(err, &op) {
		return err
	}
	read := *op
	read.Op = "read"
	return &read
}

// again calls f until no signal has interrupted it.
func again(f func(int, []byte) (int, error), fd int, p []byte) (int, error) {
	for {
		if n, err := f(fd, p); err != syscall.EINTR { //nolint:errorlint // an Errno
			return n, err
		}
	}
}

func (s *socket) fault(op string, err error) error {
	return &net.OpError{
		Op: op, Net: s.RemoteAddr().Network(), Source: s.LocalAddr(), Addr: s.RemoteAddr(), Err: os.NewSyscallError(op, err),
	}
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
