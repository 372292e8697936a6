//go:build !linux

package suspend

import "time"

// WithSleep returns awake, because this system does not report suspends.
func WithSleep() time.Duration { return awake() }
