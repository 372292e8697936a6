package relock

import "github.com/relock-go/relock/internal/lockspec"

// IsRetryableErr reports whether the same call may succeed later without any
// change to settings or code.
//
//	true   held by others, too few replicas, queue full
//	true   too few nodes, unless so many fail for good that the others are no quorum
//	true   network: cannot connect, connection cut, no answer in time, no free connection in the pool
//	true   server answers LOADING, BUSY, READONLY, OOM, MISCONF, NOREPLICAS,
//	       MASTERDOWN, CLUSTERDOWN, TRYAGAIN
//	true   server has no connection free: max number of clients reached
//	false  a context that has ended is anywhere in the chain, whatever else is
//	false  everything else: invalid, closed, lost, not held, not confirmed, denied,
//	       key conflict, upgrade, other server errors
//
// A blocking Lock goes on waiting while this is true. If the queue is full, it
// returns immediately.
func IsRetryableErr(err error) bool { return lockspec.IsRetryable(err) }
