// Package utils identifies an owner: by the process, by the goroutine, and by
// an id that is unique.
package utils

import (
	"os"

	"github.com/google/uuid"
	"github.com/petermattis/goid"
)

// NewID returns a random UUID (version 4, 122 random bits). It fails if the
// system's source of randomness fails.
func NewID() (string, error) {
	id, err := uuid.NewRandom()
	if err != nil {
		return "", err
	}
	return id.String(), nil
}

// GoroutineID returns the id of the calling goroutine. The runtime never reuses
// an id within a process.
func GoroutineID() int64 { return goid.Get() }

// Process returns the process id and the host's name. The name is "" if it is
// not known.
func Process() (host string, pid int) {
	host, err := os.Hostname()
	if err != nil {
		host = ""
	}
	return host, os.Getpid()
}
