package queue

import (
	"context"
	"iter"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/engine"
	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/redis/driver"
)

// List returns the names of the queues with the client's prefix that have tasks
// or dead letters, or pauses, each once. A queue that begins or ends to have
// some meanwhile may be missed. After an error it ends.
//
// It reads all keys of the database, a few at a time, of one server after
// another, as [relock.Client.List] does.
func List(ctx context.Context, client *relock.Client) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		l := queueListing{yield: yield, seen: map[string]bool{}}
		if err := l.run(ctx, client); err != nil {
			yield("", wrapped("list queues", "", err))
		}
	}
}

// queueListing is one loop over List.
type queueListing struct {
	yield   func(string, error) bool
	seen    map[string]bool
	stopped bool // by the caller
}

// run yields the queues of all servers of the client.
func (l *queueListing) run(ctx context.Context, client *relock.Client) error {
	e := hostOf(engine.Of(client))
	var m lockspec.Problems
	m.CheckClient("client", client == nil, e != nil)
	if err := m.Err(); err != nil {
		return err
	}
	q := &base{engine: e}
	if err := q.ready(ctx); err != nil {
		return err
	}
	nodes, err := e.Driver.Nodes(ctx)
	if err != nil {
		return driver.ContextErr(ctx, err)
	}
	for _, n := range nodes {
		for cursor, more := "0", true; more && !l.stopped; more = cursor != "0" {
			if err = q.ready(ctx); err != nil {
				return err
			}
			var keys []string
			if cursor, keys, err = driver.ScanKeys(ctx, n, cursor, e.Prefix+"queue:{", "*}:[pv]"); err != nil {
				return err
			}
			l.names(keys)
		}
	}
	return nil
}

// names yields the queues with these keys, unless they came before.
func (l *queueListing) names(keys []string) {
	for _, key := range keys {
		name := key[:len(key)-len("}:p")]
		var m lockspec.Problems
		lockspec.CheckName(&m, "name", name)
		if m.Err() != nil || l.seen[name] { // no queue has such a name
			continue
		}
		if l.seen[name] = true; !l.yield(name, nil) {
			l.stopped = true
			return
		}
	}
}
