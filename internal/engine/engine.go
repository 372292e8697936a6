// Package engine owns the way from a client to its engine, for packages queue
// and doctor. They lie beside the root package, whose exported API has no way
// to it.
//
// It has one of the three variables of the module that are no constants: the
// function that knows the inside of a client. The root package provides it
// while the packages of a program are initialised, before any other code runs.
// It never changes after that. The others are the profile of package holds, and
// the function of package taskdouble.
package engine

import "github.com/relock-go/relock/internal/lease"

var of func(client any) *lease.Manager

// Provide sets the function that returns the engine of a client. Only the root
// package calls it, in a package-level initialiser, for which it returns a
// value.
func Provide(f func(client any) *lease.Manager) struct{} {
	of = f
	return struct{}{}
}

// Of returns the engine of a *relock.Client. It returns nil if the client was
// not made by its constructor.
func Of(client any) *lease.Manager { return of(client) }
