package errs

import (
	"errors"
	"fmt"
)

// The reasons, each with one meaning.
var (
	ErrLockAcquiredByOthers = errors.New("lock is held by others")
	ErrNotHeld              = errors.New("not held")
	ErrLockLost             = errors.New("lock lost")
	ErrInvalid              = errors.New("invalid")
	ErrClosed               = errors.New("client closed")
	ErrQuorum               = errors.New("no quorum")
	ErrKeyConflict          = errors.New("key is used by something else")
	ErrUpgrade              = errors.New("read lock has other readers")
	ErrQueueFull            = errors.New("wait queue is full")
	ErrReplicas             = errors.New("too few replicas")
	ErrMaxHold              = errors.New("maximum hold time reached")
	ErrForced               = errors.New("lock was forced open")
	ErrDenied               = errors.New("permission denied by the server")
	ErrUnconfirmed          = errors.New("release not confirmed")
)

// Both is an error that matches two reasons and reads "a: b".
func Both(a, b error) error { return fmt.Errorf("%w: %w", a, b) }
