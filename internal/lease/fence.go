package lease

import (
	"context"

	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/redis/driver"
	"github.com/relock-go/relock/internal/script"
)

// Fencing tokens. A script that takes a lock draws the token from a counter
// beside it, `<lock>:f`. The token is the server's time in microseconds, or the
// last token plus one if that is higher. So it does not go back when the
// counter is lost, unless the server's clock goes back. A grant of an unfair
// plain lock sets tokens aside for the holders that the lock is passed on to in
// memory. None of these is more than 63 µs ahead of the server's clock, so the
// clock soon passes them.
//
// The idea is Martin Kleppmann's:
// https://martin.kleppmann.com/2016/02/08/how-to-do-distributed-locking.html

// Raise sets the counter of a lock to at least fence. This token was drawn from
// another counter for the same hold.
func (c *client) Raise(ctx context.Context, s *lockspec.Spec, redisKey string, fence int64) error {
	o, _ := c.Eval(ctx, driver.ForLease(s.Lease), raise(redisKey, fence))
	return o.Err
}

// RaiseAll is Raise for several locks. It returns the first error.
func (c *client) RaiseAll(ctx context.Context, s *lockspec.Spec, redisKeys []string, fence int64) error {
	calls := make([]script.Call, len(redisKeys))
	for i, key := range redisKeys {
		calls[i] = raise(key, fence)
	}
	results, _ := script.RunAll(ctx, c.Driver, driver.ForLease(s.Lease), calls)
	for _, o := range results {
		if o.Err != nil {
			return o.Err
		}
	}
	return nil
}

func raise(redisKey string, fence int64) script.Call {
	return script.Call{Script: script.FenceRaise, Key: redisKey + script.CounterSuffix, Args: []any{fence}}
}
