package relock

import (
	"context"
	"fmt"
	"maps"
	"slices"
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

// confirmation is nil for a lock that needs none.
func (s *lockSettings) confirmation() *confirmation {
	if s.replicas == 0 {
		return nil
	}
	return &confirmation{s.replicas, s.replicaTimeout}
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
	if code, _ := readGrant(reply); code != answerOurs {
		return nil
	}
	reply, err := d.doOnce(ctx, c, conn, timeout+r.confirm.timeout, r.confirm.request())
	return r.confirm.judge(reply, err)
}

// ask sends a script that takes or lengthens a lock, and waits for its replicas.
func (c *Client) ask(ctx context.Context, settings *lockSettings, s scripted) (outcome, doubt) {
	c.vigil.look(time.Now())
	return c.evalConfirmed(ctx, ofLease(settings.lease), s, settings.confirmation())
}

// ask is that of a client, for another level of the lease or a longer one. It waits for the replicas of the hold, of which no level asks for more:
// belief moves for all levels.
func (l *lease) ask(ctx context.Context, settings *lockSettings, s scripted) (outcome, doubt) {
	return l.client.evalConfirmed(ctx, ofLease(settings.lease), s, l.confirm)
}

// confirmed turns the answers of renewals that too few replicas have, or nobody knows how many, into errors.
func (c *confirmation) confirmed(outcomes []outcome) {
	if c == nil {
		return
	}
	for i := range outcomes {
		switch o := &outcomes[i]; {
		case !isOurs(o.reply):
		case o.unacked != nil:
			o.err = o.unacked
		case o.acks < int64(c.replicas):
			o.err = errTooFewReplicas{o.acks}
		}
	}
}

// renewer is the worker that renews the lease.
func (l *lease) renewer() *worker {
	if l.confirm != nil {
		return l.client.replicator(*l.confirm)
	}
	return l.client.watchdog
}

// replicator renews leases that wait for the same number of replicas as long. It waits too, and so others have another one:
// replicas that do not come would make it late.
func (c *Client) replicator(k confirmation) *worker {
	c.mu.Lock()
	defer c.mu.Unlock()
	w := c.replicators[k]
	if w == nil {
		w = newWorker(c.driver, c.tasks, c.life.Done())
		w.confirm = &k
		c.replicators[k] = w
	}
	return w
}

// allReplicators are those that there are.
func (c *Client) allReplicators() []*worker {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Collect(maps.Values(c.replicators))
}
