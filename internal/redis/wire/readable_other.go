//go:build !unix

package wire

import (
	"errors"
	"net"
	"syscall"
)

const canWait = false

// rawConn returns nil. Here, waiting on a socket without reading from it is not
// possible, so calls use a goroutine.
func rawConn(net.Conn) syscall.RawConn { return nil }

// canRead reports whether a socket can be checked, which is impossible here.
func (*socket) canRead() bool { return false }

func (*socket) exchange([]byte, []byte) (int, int, error) { return 0, 0, errors.ErrUnsupported }
