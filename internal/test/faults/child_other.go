//go:build !linux

package faults

// Role is what a helper process does. This system has no helper processes.
type Role func(*Self) error

// Self is a helper process as its role sees it.
type Self struct{}

// RunChild does nothing on this system.
func RunChild(map[string]Role) {}
