//go:build !linux

package suspend

import "time"

// WithSleep cannot be known here.
func WithSleep() time.Duration { return Awake() }
