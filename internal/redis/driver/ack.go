package driver

import (
	"fmt"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/relock-go/relock/internal/errs"
)

// Ack makes a request wait, after it has taken or extended a lock, until a
// number of replicas have it. WAIT counts the replicas that have everything
// written over its own connection. So it follows the request on that
// connection.
type Ack struct {
	Replicas int
	Timeout  time.Duration
}

func (c *Ack) Request() Request {
	return Request{Cmd: "WAIT", Args: []any{c.Replicas, c.Timeout.Milliseconds()}, Waits: c.Timeout}
}

// errTooFewReplicas is the error of a lock that too few replicas have. The
// server has answered: the lock exists, and must be released.
type errTooFewReplicas struct{ got int64 }

func (e errTooFewReplicas) Error() string {
	return fmt.Sprintf("%v: %d confirmed", errs.ErrReplicas, e.got)
}

// Unwrap returns [errs.ErrReplicas].
func (e errTooFewReplicas) Unwrap() error { return errs.ErrReplicas }

// Longest returns how long the server may take on top of the time of a command.
func (c *Ack) Longest() time.Duration {
	if c == nil {
		return 0
	}
	return c.Timeout
}

// Judge returns nil if the answer to WAIT counts enough replicas.
func (c *Ack) Judge(reply any, err error) error {
	got, err := redis.Int64(reply, err)
	switch {
	case isDemoted(err):
		return errDemoted
	case err != nil:
		return err
	case got < int64(c.Replicas):
		return errTooFewReplicas{got}
	}
	return nil
}

// errDemoted is the error of a lock if it is unknown which replicas have it.
var errDemoted = fmt.Errorf("%w: the server has become a replica itself", errs.ErrReplicas)

// isDemoted reports whether the server has become a replica since it answered
// the request. Unlike after READONLY, the lock was taken, and must be released.
func isDemoted(err error) bool {
	line, ok := ErrorLine(err)
	return ok && (Code(line) == "UNBLOCKED" || strings.HasPrefix(string(line), "ERR WAIT cannot be used with replica"))
}

// PipelineAcked sends the requests together. If one is granted, WAIT follows
// the answers, on the same connection. A granted request has an error if too
// few replicas have it, or if their number is unknown. A request that follows a
// redirect has a separate WAIT, on the connection where it was executed.
func PipelineAcked(l Link, limit BatchLimit, requests []Request, confirm *Ack) []Result {
	if confirm == nil {
		return l.Pipeline(limit, requests)
	}
	for i := range requests {
		requests[i].Ack = confirm
	}
	outcomes := l.Pipeline(limit, append(requests, confirm.Request()))
	last := len(outcomes) - 1
	err := confirm.Judge(outcomes[last].Reply, outcomes[last].Err)
	outcomes = outcomes[:last]
	for i := range outcomes {
		if err != nil && !outcomes[i].Followed && requests[i].Granted(outcomes[i].Reply) {
			outcomes[i].Err = err
		}
	}
	return outcomes
}
