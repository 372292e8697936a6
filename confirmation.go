package relock

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/relock-go/relock/internal/errs"
)

// confirmation is what a request waits for after it has taken or extended a
// lock: a number of replicas that have it. WAIT counts those that have all that
// was written over its own connection, so it follows the request there.
type confirmation struct {
	replicas int
	timeout  time.Duration
}

func (c *confirmation) request() request {
	return request{cmd: "WAIT", args: []any{c.replicas, c.timeout.Milliseconds()}, waits: c.timeout}
}

// errTooFewReplicas is the error of a lock that too few replicas have. The server
// has answered: the lock exists, and must be released.
type errTooFewReplicas struct{ got int64 }

func (e errTooFewReplicas) Error() string {
	return fmt.Sprintf("%v: %d confirmed", errs.ErrReplicas, e.got)
}

// Unwrap returns the reason.
func (e errTooFewReplicas) Unwrap() error { return errs.ErrReplicas }

func tooFewReplicas(got int64) error { return errTooFewReplicas{got} }

// longest is how long the server may take on top of what a command may.
func (c *confirmation) longest() time.Duration {
	if c == nil {
		return 0
	}
	return c.timeout
}

// judge reads the answer to WAIT.
func (c *confirmation) judge(reply any, err error) error {
	got, err := redis.Int64(reply, err)
	switch {
	case isDemoted(err):
		return errDemoted
	case err != nil:
		return err
	case got < int64(c.replicas):
		return tooFewReplicas(got)
	}
	return nil
}

// errDemoted is the error of a lock whose replicas are unknown.
var errDemoted = fmt.Errorf("%w: the server has become a replica itself", errs.ErrReplicas)

// isDemoted reports whether the server has become a replica since it answered
// the request. Unlike after READONLY, the lock was taken, and must be released.
func isDemoted(err error) bool {
	line, ok := errorLine(err)
	return ok && (code(line) == "UNBLOCKED" || strings.HasPrefix(string(line), "ERR WAIT cannot be used with replica"))
}

// confirm sends WAIT on the connection that has answered the request. A request
// that took nothing needs no replica.
func (d *poolDriver) confirm(ctx context.Context, c *call, conn redis.Conn, timeout time.Duration, r request, reply any) error {
	if !r.granted(reply) {
		return nil
	}
	reply, err := d.doOnce(ctx, c, conn, timeout+r.confirm.timeout, r.confirm.request())
	return r.confirm.judge(reply, err)
}

// pipelineConfirmed asks behind the requests how many replicas have them.
func pipelineConfirmed(l link, limit batchLimit, requests []request, confirm *confirmation) []outcome {
	if confirm == nil {
		return l.pipeline(limit, requests)
	}
	outcomes := l.pipeline(limit, append(requests, confirm.request()))
	last := len(outcomes) - 1
	acks, err := redis.Int64(outcomes[last].reply, outcomes[last].err)
	for i := range outcomes {
		outcomes[i].acks, outcomes[i].unacked = acks, err
	}
	return outcomes[:last]
}
