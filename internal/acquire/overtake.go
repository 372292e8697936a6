package acquire

import (
	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/redis/driver"
)

// Overtakes reports whether a call that could not enter the queue, or claim its
// turn, takes the lock without it. It does while a Cluster moves the slot of
// an unfair lock. A script that names the key of the lock only is answered
// then. One of a lock with fencing names the counter, too.
func Overtakes(err error, s *lockspec.Spec) bool {
	return driver.IsHalfMoved(err) && !s.Fair && !s.Fencing
}
