// Package lockspec defines locks, before anything is sent: kinds, settings, key
// names and stored values, and the validation errors of all these.
//
// # Kinds
//
// A [Kind] is all that distinguishes one kind of lock from the others, one row
// in kind.go:
//
//   - its [Family]: how the lock is stored, and who owns it;
//   - the options that it honours;
//   - its letter in the names of waiters, and the scripts of its [Queue];
//   - whether its levels write;
//   - whether a hold passes to a local waiter without a request (Passes) or by
//     one request (Transfers).
//
// # Settings
//
// [Options] are what a user gave. [Resolve] checks them and merges them with
// the defaults of the client, as far as the kind honours them. The result is a
// [Spec], which the engine uses and never changes. [Problems] collects all
// validation errors, so that one error reports them.
//
// [Spec.Split] makes the settings of a lease group, which is not renewed
// itself, and of its members, which have no maximum hold. [Spec.SameHold]
// reports whether two calls ask for the same hold. A lock goes from one to the
// other in this process only if they do.
//
// Four durations follow from the settings: [Spec.Expiry], [Spec.ClaimLease],
// [Spec.Period] and [Spec.RightOfWay]. Other clients must compute the same, so
// docs/internals/protocol.md has the formulas.
//
// # Names and values
//
// An [Identity] is how a client signs what it stores. Its ID is a UUID of the
// client, not of the process or of an owner. docs/internals/protocol.md has the
// formats:
//
//   - [Identity.Value], [KeptValue], [Identity.Info] and [Identity.RWInfo] make
//     what a lock stores;
//   - [Identity.Hold] and [WaitName] make the names of holds and waiters;
//   - [Identity.Goroutine] and [Identity.Named] make the names of owners.
//
// [ReadContent], [HoldOf], [ReadNote] and [ReadWait] read these, for the whole
// module.
//
// They contain the client's time for people only. No decision depends on the
// clock of a client.
//
// [Spec.KeyConflict] says what a key of another kind is, and what was
// requested.
//
// [IsRetryable] reports whether the same call may succeed later.
//
// The package has no goroutines and no mutexes. Its values never change once
// their lock is made.
package lockspec
