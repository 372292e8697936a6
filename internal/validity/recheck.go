package validity

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/redis/driver"
	"github.com/relock-go/relock/internal/script"
)

// A failover may lose a grant that the old master has answered. So each hold
// asks the master whether it is there, as soon as the client knows of a change.
// A renewal asks. A lease that is not renewed sends one for a moment, which
// shortens nothing. The answer "not ours" ends the hold, as for any renewal.

// CheckLength is the lease that a check requests, the shortest that scripts
// allow.
const CheckLength = 10 * time.Millisecond

// switches knows when masters have changed. A grant that was requested before,
// and comes into the books later, has to ask as well.
type switches struct {
	clock
	last atomic.Int64 // counted from the client's start
}

// note notes that masters have changed.
func (s *switches) note() { s.last.Store(int64(s.now())) }

// since reports whether masters have changed since a request was sent.
func (s *switches) since(sent time.Time) bool { return s.Count(sent) < time.Duration(s.last.Load()) }

// IsThere reports whether a check has found the hold. Too few replicas are no
// reason against it: a new master lacks them at first.
func IsThere(o driver.Result) bool {
	return o.Err == nil && o.Reply == int64(script.OK) || errors.Is(o.Err, errs.ErrReplicas)
}
