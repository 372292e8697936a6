package relock

import (
	"context"
	"errors"
	"iter"
	"strings"
	"time"

	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/script"
)

// State is what a lock is at the moment.
type State string

// The states of a lock. A lock is reserved while it is handed over to a waiter that has not taken it yet, and kept after its
// Unlock for the rest of its minimum hold, see [WithMinHold].
const (
	StateFree     State = "free"
	StateHeld     State = "held"
	StateReserved State = "reserved"
	StateKept     State = "kept"
)

// NoExpiry is [Info.Left] of a key without an expiry: it stays until it is
// deleted.
const NoExpiry time.Duration = -1

// Info is what Redis knows of a lock.
type Info struct {
	Key   string
	State State
	// Kind is "plain", "reentrant" or "read/write"; empty when the lock is free.
	Kind string
	Fair bool
	// Holder is who has the lock alone, or had it while it is kept; nil when nobody does.
	Holder *Holder
	// Readers are the holders who read, of a read/write lock; at most 128 of them.
	Readers []Holder
	// Left is how long the lock stays without a renewal: 0 if it is free,
	// [NoExpiry] if the key has no expiry. relock always sets one; another
	// program may remove it.
	Left time.Duration
	// Fence is the highest fencing token that a holder can have had so far; 0
	// when there was none. An unfair [RedisLock] can be passed on within a
	// process. Each of its grants sets up to 63 tokens aside for that, and
	// Fence is the last one.
	Fence int64
	// Waiting is how many wait in Redis. The goroutines of a process that wait for an unfair lock count as one. Calls that wait
	// for a [RedLock] are not among them.
	Waiting int
	// Waiters are the first of them, at most 128, in the order of arrival.
	Waiters []Waiter
}

// Holder is who has a lock, as it has signed: nothing of it is checked. Of a lock that was passed on within a process it is
// the holder that took it from Redis.
type Holder struct {
	Client string // id of its Client, new for each
	Host   string
	PID    int
	Label  string    // see [WithLabel]
	Since  time.Time // by the holder's clock
	Owner  string    // of a reentrant or read/write lock: "goroutine 12", or the owner's name; else empty
	Count  int       // levels; 1 for a plain lock
}

// Waiter is one that waits for a lock.
type Waiter struct {
	Client string        // id of its Client
	Age    time.Duration // since it came, by the server's clock
	Kind   string        // as in [Info]
	Fair   bool
}

// Inspect tells what Redis knows of a lock of this name: who has it, since when, for how long without a renewal, and who
// waits. A lock that nobody has is [StateFree], no error. It is [ErrKeyConflict] when the key is something else. What it tells
// may be over when it returns.
func (c *Client) Inspect(ctx context.Context, key string) (Info, error) {
	var m lockspec.Problems
	lockspec.CheckKey(&m, key)
	if err := c.ready(ctx, m.Err()); err != nil {
		return Info{}, wrap("inspect", key, err)
	}
	o, _ := c.engine.Eval(ctx, driver.Limits{}, script.Call{Script: script.Inspect, Key: c.engine.RedisKey(key)})
	if o.Err != nil {
		return Info{}, wrap("inspect", key, driver.Ended(ctx, o.Err))
	}
	info, err := readInfo(key, o.Reply)
	if errors.Is(err, ErrKeyConflict) {
		fence := info.Fence
		info, err = c.inspectRW(ctx, key)
		info.Fence = fence
		if err != nil && !errors.Is(err, ErrKeyConflict) {
			return Info{}, wrap("inspect", key, err)
		}
	}
	return info, wrap("inspect", key, err)
}

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

// inspectRW asks what a read/write lock is.
func (c *Client) inspectRW(ctx context.Context, key string) (Info, error) {
	o, _ := c.engine.Eval(ctx, driver.Limits{}, script.Call{Script: script.RWInspect, Key: c.engine.RedisKey(key)})
	if o.Err != nil {
		return Info{}, driver.Ended(ctx, o.Err)
	}
	return readRWInfo(key, o.Reply)
}
