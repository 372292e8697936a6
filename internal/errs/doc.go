// Package errs owns the reasons for which an operation fails. The root package
// exports and documents them. loss.go has the texts of losses.
package errs
