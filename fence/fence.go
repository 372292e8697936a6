// Package fence makes fencing tokens of use where the data are in Redis too: writes under a token that is lower than one seen
// before are refused. So a holder that was paused beyond its lease, and does not know it yet, cannot overwrite what the next
// holder has written. For other stores see docs/fencing.md.
//
// The idea is Martin Kleppmann's: https://martin.kleppmann.com/2016/02/08/how-to-do-distributed-locking.html
package fence

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/relock-go/relock"
)

// ErrStale reports a write under a token that is lower than one seen before. Nothing was written: the lock has had another
// holder since.
var ErrStale = errors.New("fencing token is stale")

//go:embed guard.lua
var guardSource string

// keep is how long a guard remembers a token that nobody writes under.
const keep = 30 * 24 * time.Hour

// Eval runs a Lua script like [relock.Client.Eval], if the guard has seen no token above this one, and else returns
// [ErrStale]. The guard is a key of its own, the same for all writers of the data; in a Cluster it has the slot of the
// script's keys. It is kept for 30 days after the last write, unless Redis may evict it: then a late write passes. The token
// is that of the hold, see [relock.WithFencing], and above 0; else, and where the guard has no name, the error matches
// [relock.ErrInvalid]. The script sees its own keys and arguments alone, and may run more than once for one token. Errors are
// a [*relock.Error].
func Eval(ctx context.Context, c *relock.Client, guard string, token int64, script string, keys []string, args ...any) (any, error) {
	return eval(ctx, c, guard, guard, token, script, keys, args)
}

// eval is Eval, whose errors name the key that its caller knows.
func eval(ctx context.Context, c *relock.Client, named, guard string, token int64, script string, keys []string, args []any) (any, error) {
	switch {
	case guard == "":
		return nil, because("", "%w: guard: is empty", relock.ErrInvalid)
	case token <= 0:
		return nil, because(named, "%w: token: %d is not above 0; was the lock made WithFencing?", relock.ErrInvalid, token)
	}
	all := append([]any{token, keep.Milliseconds()}, args...)
	reply, err := c.Eval(ctx, relock.NewScript(guardSource+script), append([]string{guard}, keys...), all...)
	if isStale(err) {
		return nil, because(named, "%w: %d", ErrStale, token)
	}
	return reply, err
}

// because is an error that concerns a key.
func because(key, format string, args ...any) error {
	return &relock.Error{Op: "fence", Key: key, Err: fmt.Errorf(format, args...)}
}

// isStale says that the guard has refused.
func isStale(err error) bool {
	var line redis.Error
	return errors.As(err, &line) && strings.HasPrefix(string(line), "STALETOKEN ")
}

// Set sets key to value, for expiry or, when that is 0, for good; or returns [ErrStale] when it was written under a higher
// token. The guard is the key that [GuardOf] says.
func Set(ctx context.Context, c *relock.Client, key, value string, token int64, expiry time.Duration) error {
	if expiry < 0 || expiry%time.Millisecond != 0 {
		return because(key, "%w: expiry: %v is not whole milliseconds from 0 on", relock.ErrInvalid, expiry)
	}
	script, args := "return redis.call('SET', KEYS[1], ARGV[1])", []any{value}
	if expiry > 0 {
		script, args = "return redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])", []any{value, expiry.Milliseconds()}
	}
	_, err := eval(ctx, c, key, GuardOf(key), token, script, []string{key}, args)
	return err
}

// GuardOf is the name of the guard that [Set] uses for a key: `{key}:fence`, or `key:guard` where the key has a closing brace.
// No two keys have the same. It is in the key's slot of a Cluster, unless the key has a closing brace but no `{tag}`, as
// `a}b` and `{}a` do: there is no such name for these, and a Cluster refuses to Set them.
func GuardOf(key string) string {
	if strings.Contains(key, "}") {
		return key + ":guard"
	}
	return "{" + key + "}:fence"
}
