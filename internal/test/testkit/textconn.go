package testkit

import (
	"io"
	"net"
	"time"
)

// TextConn is a connection on which a text is read. What is written to it is
// taken, and nothing becomes of it.
type TextConn struct {
	net.Conn

	Text io.Reader
}

// Read reads the text.
func (c TextConn) Read(p []byte) (int, error) { return c.Text.Read(p) }

// Write takes the bytes.
func (TextConn) Write(p []byte) (int, error) { return len(p), nil }

// SetReadDeadline does nothing: a read waits for nothing.
func (TextConn) SetReadDeadline(time.Time) error { return nil }

// SetWriteDeadline does nothing: a write waits for nothing.
func (TextConn) SetWriteDeadline(time.Time) error { return nil }

// Close does nothing.
func (TextConn) Close() error { return nil }
