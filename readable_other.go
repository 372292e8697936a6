//go:build !unix

package relock

import (
	"errors"
	"net"
	"syscall"
)

const canWait = false

// rawConn says that here no socket can be waited on without reading it; calls take a goroutine instead.
func rawConn(net.Conn) syscall.RawConn { return nil }

func waitReadable(syscall.RawConn) error { return errors.ErrUnsupported }
