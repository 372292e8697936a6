package wire

import (
	"errors"
)

// UnacceptedError is the error of a connection that ended before the server's
// first answer. A server at maxclients closes new connections, but the idle
// ones still work.
type UnacceptedError struct {
	Err   error
	Plain bool // nothing was encrypted
}

func (e UnacceptedError) Error() string { return e.Err.Error() }

// Unwrap returns the reason why the connection ended.
func (e UnacceptedError) Unwrap() error { return e.Err }

// IsUnaccepted reports whether a connection ended before its first answer.
func IsUnaccepted(err error) bool {
	var unaccepted UnacceptedError
	return errors.As(err, &unaccepted)
}
