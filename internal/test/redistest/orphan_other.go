//go:build !linux

package redistest

import "syscall"

// withParent does nothing: a server outlives a test process that is killed.
func withParent() *syscall.SysProcAttr { return nil }
