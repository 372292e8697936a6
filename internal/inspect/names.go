package inspect

import (
	"context"
	"iter"
	"strings"

	"github.com/relock-go/relock/internal/redis/driver"
)

// Names iterates over the names of keys of locks that match a pattern of SCAN,
// each once. It reads one server after another. An error ends it.
func (l Locks) Names(ctx context.Context, pattern string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		nodes, err := l.nodes(ctx)
		if err != nil {
			yield("", err)
			return
		}
		seen := map[string]bool{}
		for _, n := range nodes {
			if !l.ofNode(ctx, n, pattern, seen, yield) {
				return
			}
		}
	}
}

// nodes returns the servers of the client.
func (l Locks) nodes(ctx context.Context) ([]driver.Node, error) {
	if err := l.Ready(ctx); err != nil {
		return nil, err
	}
	nodes, err := l.Driver.Nodes(ctx)
	return nodes, driver.ContextErr(ctx, err)
}

// ofNode yields the names at one server that were not seen yet. It reports
// whether to go on.
func (l Locks) ofNode(
	ctx context.Context, n driver.Node, pattern string, seen map[string]bool, yield func(string, error) bool,
) bool {
	for cursor, more := "0", true; more; more = cursor != "0" {
		var names []string
		var err error
		if cursor, names, err = l.scan(ctx, n, cursor, pattern); err != nil {
			yield("", err)
			return false
		}
		for _, name := range names {
			if !seen[name] && !yield(name, nil) {
				return false
			}
			seen[name] = true
		}
	}
	return true
}

// scan returns the names of some locks, and the cursor of the next call.
func (l Locks) scan(
	ctx context.Context, n driver.Node, cursor, pattern string,
) (next string, names []string, err error) {
	if err := l.Ready(ctx); err != nil {
		return "", nil, err
	}
	next, names, err = driver.ScanKeys(ctx, n, cursor, l.Prefix+"{", pattern+"}")
	for i := range names {
		names[i] = strings.TrimSuffix(names[i], "}")
	}
	return next, names, err
}
