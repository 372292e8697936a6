// Package fence makes fencing tokens useful for data in Redis. It refuses a
// write under a token that is lower than one seen before. A holder that was
// paused beyond its lease may not know of its loss yet. Its late write cannot
// overwrite what the next holder has written. For other stores see
// docs/fencing.md.
//
// In the function of Do of a lock with [relock.WithFencing]:
//
//	hold, held := relock.HoldFromContext(ctx, "stock")
//	...
//	err := fence.Set(ctx, client, "stock", "17", hold.Fence(), time.Hour)
//
// The idea is Martin Kleppmann's:
// https://martin.kleppmann.com/2016/02/08/how-to-do-distributed-locking.html
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
	"github.com/relock-go/relock/internal/redis/driver"
)

// ErrStale reports a write under a token that is lower than one seen before.
// Nothing was written. The lock has had another holder since.
var ErrStale = errors.New("fencing token is stale")

//go:embed guard.lua
var guardSource string

// keep is how long a guard remembers a token after the last write.
const keep = 30 * 24 * time.Hour

// Eval runs a Lua script like [relock.Client.Eval], unless the guard has seen a
// token above this one. In that case it returns [ErrStale]. The script sees
// only its own keys and arguments, and may run more than once for one token.
//
// The guard is a separate key, the same for all writers of the data. In a
// Cluster it must be in the slot of the script's keys. It is kept for 30 days
// after the last write, unless Redis evicts it. After that a late write passes.
//
// The token is that of the hold, see [relock.WithFencing]. If it is not above
// 0, or the guard is empty, the error matches [relock.ErrInvalid]. Every error
// is a [*relock.Error].
//
// The Redis user needs permission for the guard too, also with [Set].
func Eval(
	ctx context.Context, c *relock.Client, guard string, token int64, script string, keys []string, args ...any,
) (any, error) {
	return eval(ctx, c, guard, guard, token, script, keys, args)
}

// eval is Eval with errors that name the key that the caller knows.
func eval(
	ctx context.Context, c *relock.Client, named, guard string, token int64, script string, keys []string, args []any,
) (any, error) {
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

// because returns an error that concerns a key.
func because(key, format string, args ...any) error {
	return &relock.Error{Op: "fence", Key: key, Err: fmt.Errorf(format, args...)}
}

// isStale reports whether the guard has refused the token.
func isStale(err error) bool {
	var line redis.Error
	return errors.As(err, &line) && strings.HasPrefix(string(line), "STALETOKEN ")
}

// Set sets key to value. The key expires after expiry, or never if expiry is 0.
// Set returns [ErrStale] if the key was written under a higher token. [GuardOf]
// returns the guard that Set uses. A key without one is [relock.ErrInvalid], on
// any server.
func Set(ctx context.Context, c *relock.Client, key, value string, token int64, expiry time.Duration) error {
	guard := GuardOf(key)
	switch {
	case guard == "":
		return because(key, "%w: key: %q is empty, or has a closing brace but no {tag}: no guard is in its slot of a Cluster",
			relock.ErrInvalid, key)
	case expiry < 0 || expiry%time.Millisecond != 0:
		return because(key, "%w: expiry: %v is not whole milliseconds from 0 on", relock.ErrInvalid, expiry)
	}
	script, args := "return redis.call('SET', KEYS[1], ARGV[1])", []any{value}
	if expiry > 0 {
		script, args = "return redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])", []any{value, expiry.Milliseconds()}
	}
	_, err := eval(ctx, c, key, guard, token, script, []string{key}, args)
	return err
}

// GuardOf returns the name of the guard that [Set] uses for a key. It is
// `{key}:fence`, or `key:guard` if the key has a closing brace. No two keys
// have the same guard, and a guard is in its key's slot of a Cluster.
//
// A key that is empty, or has a closing brace but no `{tag}`, such as `a}b` and
// `{}a`, has no guard: no other name is in its slot. GuardOf returns "".
func GuardOf(key string) string {
	guard := "{" + key + "}:fence"
	if strings.Contains(key, "}") {
		guard = key + ":guard"
	}
	if driver.TagOf(guard) != driver.TagOf(key) {
		return ""
	}
	return guard
}
