package relock

import (
	"context"
	"errors"
	"iter"
	"strings"

	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/lockspec"
)

// List goes through the locks that are held, reserved or kept and whose names match a pattern as SCAN knows it (* is any
// text, ? one character, [ab] one of these; a backslash takes the next character as it is), and tells of each what
// [Client.Inspect] does. A lock that is taken or given back meanwhile may be listed or not; none is listed twice. A key that
// is something else is listed with [ErrKeyConflict]; any other error ends the list. It reads all keys of the database, a few
// at a time.
func (c *Client) List(ctx context.Context, pattern string) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		seen := map[string]bool{}
		for cursor, more := "0", true; more; more = cursor != "0" {
			var names []string
			var err error
			if cursor, names, err = c.scan(ctx, cursor, pattern); err != nil {
				yield(Info{}, wrap("list", "", err))
				return
			}
			for _, name := range names {
				if !seen[name] && !c.listOne(ctx, name, yield) {
					return
				}
				seen[name] = true
			}
		}
	}
}

// listOne tells of one lock, unless it is free by now. It says whether to go on.
func (c *Client) listOne(ctx context.Context, name string, yield func(Info, error) bool) bool {
	var m lockspec.Problems
	if lockspec.CheckKey(&m, name); m.Err() != nil { // no lock has such a name
		return yield(Info{Key: name}, wrap("inspect", name, ErrKeyConflict))
	}
	info, err := c.Inspect(ctx, name)
	if err == nil && info.State == StateFree {
		return true
	}
	return yield(info, err) && (err == nil || errors.Is(err, ErrKeyConflict))
}

// scan returns the names of some locks, and where to go on.
func (c *Client) scan(ctx context.Context, cursor, pattern string) (next string, names []string, err error) {
	if err := c.ready(ctx, nil); err != nil {
		return "", nil, err
	}
	match := verbatim.Replace(c.config.prefix) + "{" + pattern + "}"
	o := c.engine.Driver.Call(ctx, driver.Limits{}, driver.Request{Cmd: "SCAN", Args: []any{cursor, "MATCH", match, "COUNT", 256}})
	if o.Err != nil {
		return "", nil, driver.Ended(ctx, o.Err)
	}
	var keys []string
	values, err := driver.Values(o.Reply, nil)
	if err == nil {
		_, err = driver.Scan(values, &next, &keys)
	}
	for _, key := range keys {
		names = append(names, strings.TrimSuffix(strings.TrimPrefix(key, c.config.prefix+"{"), "}"))
	}
	return next, names, err
}

// verbatim makes text match itself in a pattern.
var verbatim = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`)
