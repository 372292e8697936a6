//go:build !unix

package driver

import (
	"errors"
	"net"
	"syscall"
)

const canWait = false

// rawConn says that here no socket can be waited on without reading it; calls
// take a goroutine instead.
func rawConn(net.Conn) syscall.RawConn { return nil }

// canRead says that here no socket can be looked at.
func (*socket) canRead() bool { return false }

func waitReadable(syscall.RawConn) error { return errors.ErrUnsupported }
