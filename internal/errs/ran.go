package errs

// A function that Do runs may call Do itself, and return the error of that
// call. So each Do marks what it returns: its own refusal, or the error of its
// function if that contains the refusal of another Do. The outermost mark
// counts. Neither mark changes the text, or what the error matches.

// notRun marks the error of a Do that did not run its function.
type notRun struct{ error }

func (n notRun) Unwrap() error { return n.error }

// ran marks the error of a function that a Do ran.
type ran struct{ error }

func (r ran) Unwrap() error { return r.error }

// NotRun returns the error of a Do that did not run its function.
func NotRun(err error) error { return notRun{err} }

// Ran returns the error of a function that a Do ran. It is err itself, unless
// that contains the error of another Do that did not run its function.
func Ran(err error) error {
	if IsNotRun(err) {
		return ran{err}
	}
	return err
}

// IsNotRun reports whether err is of a Do that did not run its function.
func IsNotRun(err error) bool {
	switch e := err.(type) { //nolint:errorlint // walks the tree itself
	case notRun:
		return true
	case ran:
		return false
	case interface{ Unwrap() error }:
		return IsNotRun(e.Unwrap())
	case interface{ Unwrap() []error }:
		for _, one := range e.Unwrap() {
			if IsNotRun(one) {
				return true
			}
		}
	}
	return false
}
