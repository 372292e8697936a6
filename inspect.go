package relock

import (
	"context"
	"errors"
	"fmt"
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

var errUnreadable = fmt.Errorf("%w: not written by this version", ErrKeyConflict)

// readInfo reads the answer of inspect.lua.
func readInfo(key string, reply any) (Info, error) {
	info := Info{Key: key, State: StateFree}
	parts, err := driver.Values(reply, nil)
	if err != nil || len(parts) != 7 {
		return info, errUnreadable
	}
	var state, fence string
	var left, now int64
	var waits []string
	rest, err := driver.Scan([]any{parts[0], parts[2], parts[3], parts[4], parts[5]}, &state, &left, &fence, &now, &info.Waiting)
	if err != nil || len(rest) > 0 {
		return info, errUnreadable
	}
	if waits, err = driver.Strings(parts[6], nil); err != nil {
		return info, errUnreadable
	}
	info.Left = timeLeft(left)
	_, _ = fmt.Sscan(fence, &info.Fence) // "false" when there is none
	info.Waiters = readWaiters(waits, now)
	switch content := parts[1].(type) {
	case []byte:
		err = info.readString(string(content))
	case []any:
		err = info.readHash(content)
	}
	if state == "alien" {
		err = ErrKeyConflict
	}
	return info, err
}

// timeLeft reads the answer to PTTL: milliseconds, -1 without an expiry, -2
// without the key.
func timeLeft(pttl int64) time.Duration {
	if pttl == -1 {
		return NoExpiry
	}
	return max(0, time.Duration(pttl)*time.Millisecond)
}

// readWaiters reads waits with their tickets, which are the times of their arrival.
func readWaiters(waits []string, now int64) []Waiter {
	var all []Waiter
	for i := 0; i+1 < len(waits); i += 2 {
		parts := strings.Split(waits[i], ":")
		if len(parts) != 4 || len(parts[2]) != 2 {
			continue
		}
		w := Waiter{Client: parts[0], Fair: parts[2][1] == 'f'}
		if k := lockspec.KindOfWait(parts[2][0]); k != nil {
			w.Kind = k.Family.String()
		}
		var ticket float64
		if _, err := fmt.Sscan(waits[i+1], &ticket); err == nil {
			w.Age = max(0, time.Duration(now-int64(ticket))*time.Microsecond)
		}
		all = append(all, w)
	}
	return all
}
