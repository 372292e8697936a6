// Package errs owns the reasons for which an operation fails. The root package
// exports and documents them.
package errs
