package relock

import (
	"github.com/relock-go/relock/internal/holds"
	"github.com/relock-go/relock/internal/lease"
)

// WithHoldProfile adds each hold to the profile "relock" of package
// [runtime/pprof] until it ends, with the stack of the call that acquired it.
// So /debug/pprof/relock?debug=1 of package net/http/pprof says how many locks
// are held, and from where. The warning of the log about a hold that may have
// been forgotten then says where it was acquired. That costs some microseconds
// a hold.
//
// All clients of the process share the profile, which is the only thing that
// the module names for the whole process. It is made by the first client with
// this option, and stays. If the program has a profile of this name, it is
// used. Each level of a reentrant lock counts, and a [RedLock] at its first
// client. Deliveries of tasks do not.
func WithHoldProfile() ClientOption {
	return clientOption(func(c *clientConfig) { c.profile = true })
}

// hooks returns what the engine reports to.
func (c *clientConfig) hooks() lease.Hooks {
	h := c.observer.hooks()
	if c.profile {
		h.Profile = holds.OfProcess()
	}
	return h
}
