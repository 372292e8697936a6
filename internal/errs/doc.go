// Package errs has the reasons for which an operation fails. The root package
// exports and documents them. loss.go has the texts of losses, and ran.go the
// marks of a Do whose function was not run.
package errs
