// Package errs owns the reasons for which an operation fails. The package at
// the root exports and documents them.
package errs
