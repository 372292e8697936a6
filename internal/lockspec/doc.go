// Package lockspec owns what a lock is before anything is sent: its kind, its
// settings, the names and values that it stores, and the mistakes in all of
// these.
//
// A [Kind] is all that tells one kind of lock from the others. [Options] are
// what a user gave; [Resolve] checks them and makes a [Spec], which the engine
// goes by and never changes. An [Identity] is how a client signs what it
// stores.
package lockspec
