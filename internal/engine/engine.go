// Package engine is the way past the public API of the root package: from a
// client to its engine, for packages queue and doctor, and from a topology to
// its client, for the module goredis. All of them lie beside the root package.
//
// It has one of the three variables of the module that are no constants: the
// functions that know the inside of a client. The root package provides them
// while the packages of a program are initialised, before any other code runs.
// They never change after that. The others are the profile of package holds,
// and the function of package taskdouble.
package engine

import (
	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/redis/driver"
)

var root struct {
	of     func(client any) *lease.Manager
	client func(t *driver.Topology, opts any) (client any, err error)
}

// Provide sets the functions behind Of and NewClient. Only the root package
// calls it, in a package-level initialiser, for which it returns a value.
func Provide(of func(any) *lease.Manager, client func(*driver.Topology, any) (any, error)) struct{} {
	root.of, root.client = of, client
	return struct{}{}
}

// Of returns the engine of a *relock.Client. It returns nil if the client was
// not made by its constructor.
func Of(client any) *lease.Manager { return root.of(client) }

// NewClient returns a *relock.Client of the servers of t, with options that are
// a []relock.ClientOption. Neither type is known here.
func NewClient(t *driver.Topology, opts any) (client any, err error) { return root.client(t, opts) }
