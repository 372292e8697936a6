package relock

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
)

// confirmation is what a request waits for after it has taken or lengthened a lock: so many replicas that have it. WAIT says
// how many have all that was written over its own connection, so that it follows the request there.
type confirmation struct {
	replicas int
	timeout  time.Duration
}

func (c *confirmation) request() request {
	return request{cmd: "WAIT", args: []any{c.replicas, c.timeout.Milliseconds()}, waits: c.timeout}
}

// errTooFewReplicas is a lock that too few replicas have. The server has answered: the lock is there, to be released.
type errTooFewReplicas struct{ got int64 }

func (e errTooFewReplicas) Error() string { return fmt.Sprintf("%v: %d confirmed", ErrReplicas, e.got) }

// Unwrap returns the reason.
func (e errTooFewReplicas) Unwrap() error { return ErrReplicas }

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
		return errTooFewReplicas{got}
	}
	return nil
}

// errDemoted is a lock that nobody knows the replicas of.
var errDemoted = fmt.Errorf("%w: the server has become a replica itself", ErrReplicas)

// isDemoted says that the server has become a replica since it has answered the request. It is no READONLY, which has done nothing: what was
// taken has to be given back.
func isDemoted(err error) bool {
	line, ok := errorLine(err)
	return ok && (code(line) == "UNBLOCKED" || strings.HasPrefix(string(line), "ERR WAIT cannot be used with replica"))
}

// confirm follows a request that was answered on the connection. What took nothing needs no replica.
func (d *poolDriver) confirm(ctx context.Context, c *call, conn redis.Conn, timeout time.Duration, r request, reply any) error {
	if !r.granted(reply) {
		return nil
	}
	reply, err := d.doOnce(ctx, c, conn, timeout+r.confirm.timeout, r.confirm.request())
	return r.confirm.judge(reply, err)
}
