package driver

import (
	"errors"
	"fmt"
)

// Unrouted returns the error of a request for which the topology has no server.
func Unrouted(err error) error { return unroutedError{Sanitize(err)} }

type unroutedError struct{ reason error }

func (e unroutedError) Error() string { return fmt.Sprintf("no server for the key: %v", e.reason) }

func (e unroutedError) Unwrap() error { return e.reason }

// ErrNoAddress is the error of a topology that returned an empty address.
var ErrNoAddress = errors.New("the topology returned an empty address")
