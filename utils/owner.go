// Package utils says who an owner is: the process, the goroutine, and an id that nobody else has.
package utils

import (
	"os"

	"github.com/google/uuid"
	"github.com/petermattis/goid"
)

// NewID returns a random UUID (version 4, 122 random bits). It fails when the system's randomness does.
func NewID() (string, error) {
	id, err := uuid.NewRandom()
	if err != nil {
		return "", err
	}
	return id.String(), nil
}

// GoroutineID returns the id of the calling goroutine. The runtime never uses one again within a process.
func GoroutineID() int64 { return goid.Get() }

// Process returns the host's name, or "" when it is not known, and the process id.
func Process() (host string, pid int) {
	host, err := os.Hostname()
	if err != nil {
		host = ""
	}
	return host, os.Getpid()
}
