package inspect

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/redis/driver"
	"github.com/relock-go/relock/internal/script"
)

// NoExpiry is the Remaining of a key without an expiry.
const NoExpiry time.Duration = -1

// Info is the state of a lock, with the fields of relock.Info.
type Info struct {
	Key       string
	State     string
	Kind      string
	Fair      bool
	Holder    *lockspec.Holder
	Readers   []lockspec.Holder
	Remaining time.Duration
	Fence     int64
	Waiting   int
	Waiters   []Waiter
	Permits   int
}

// Waiter is a waiter, with the fields of relock.Waiter.
type Waiter struct {
	Client string
	Age    time.Duration
	Kind   string
	Fair   bool
}

var errUnreadable = fmt.Errorf("%w: not written by this version", errs.ErrKeyConflict)

// State returns the state of the lock with this name. The error of a key that
// is something else matches errs.ErrKeyConflict.
func (l Locks) State(ctx context.Context, name string) (Info, error) {
	reply, err := l.read(ctx, script.Inspect, name)
	if err != nil {
		return Info{}, err
	}
	info, err := readInfo(name, reply)
	if !errors.Is(err, errs.ErrKeyConflict) {
		return info, err
	}
	fence := info.Fence
	if reply, err = l.read(ctx, script.RWInspect, name); err != nil {
		return Info{}, err
	}
	info, err = readRWInfo(name, reply)
	info.Fence = fence
	return info, err
}

// read returns the reply of a script that reads a lock.
func (l Locks) read(ctx context.Context, s *script.Script, name string) (any, error) {
	o, _ := script.Run(ctx, l.Driver, driver.Limits{}, script.Call{Script: s, Key: l.key(name)}, nil)
	return o.Reply, driver.ContextErr(ctx, o.Err)
}

// readInfo reads the reply of inspect.lua.
func readInfo(name string, reply any) (Info, error) {
	info := Info{Key: name, State: lockspec.Free}
	parts, err := driver.Values(reply, nil)
	if err != nil || len(parts) != 7 {
		return info, errUnreadable
	}
	var state, fence string
	var left, now int64
	var waits []string
	rest, err := driver.Scan([]any{parts[0], parts[2], parts[3], parts[4], parts[5]}, &state,
		&left, &fence, &now, &info.Waiting)
	if err != nil || len(rest) > 0 {
		return info, errUnreadable
	}
	if waits, err = driver.Strings(parts[6], nil); err != nil {
		return info, errUnreadable
	}
	info.Remaining = timeLeft(left)
	_, _ = fmt.Sscan(fence, &info.Fence) // "false" when there is none
	info.Waiters = readWaiters(waits, now)
	stored, ok := lockspec.ReadContent(parts[1])
	switch {
	case state == lockspec.Foreign:
		return info, errs.ErrKeyConflict
	case !ok:
		return info, errUnreadable
	case stored.State != "":
		info.State, info.Kind, info.Fair = stored.State, stored.Kind, stored.Mode == "fair"
		info.Holder = stored.Holder
	}
	return info, nil
}

// timeLeft reads the reply to PTTL: milliseconds, -1 without an expiry, or -2
// without the key.
func timeLeft(pttl int64) time.Duration {
	if pttl == -1 {
		return NoExpiry
	}
	return max(0, time.Duration(pttl)*time.Millisecond)
}

// readWaiters reads waiters and their tickets. A ticket is the time of arrival.
func readWaiters(waits []string, now int64) []Waiter {
	var all []Waiter
	for i := 0; i+1 < len(waits); i += 2 {
		name, ok := lockspec.ReadWait(waits[i])
		if !ok {
			continue
		}
		w := Waiter{Client: name.Client, Kind: name.Kind, Fair: name.Fair}
		var ticket float64
		if _, err := fmt.Sscan(waits[i+1], &ticket); err == nil {
			w.Age = max(0, time.Duration(now-int64(ticket))*time.Microsecond)
		}
		all = append(all, w)
	}
	return all
}

// readRWInfo reads the reply of rw_inspect.lua, of a read/write lock or a
// semaphore.
func readRWInfo(name string, reply any) (Info, error) {
	info := Info{Key: name, State: lockspec.Free}
	parts, err := driver.Values(reply, nil)
	if err != nil || len(parts) != 8 {
		return info, errUnreadable
	}
	var state, mode string
	var now, left int64
	var waits, entries []string
	if _, err := driver.Scan(parts[:7], &state, &mode, &now, &left, &info.Waiting, &waits, &entries); err != nil {
		return info, errUnreadable
	}
	notes, err := driver.Values(parts[7], nil)
	if err != nil || len(notes) != len(entries) {
		return info, errUnreadable
	}
	info.Waiters, info.Remaining = readWaiters(waits, now), timeLeft(left)
	if len(waits) > 0 {
		first, _ := lockspec.ReadWait(waits[0]) // what is no wait has no permits
		info.Permits = first.Permits
	}
	switch state {
	case lockspec.Foreign:
		return info, errs.ErrKeyConflict
	case lockspec.Free:
		return info, nil
	}
	family, fair := lockspec.ReadMode(mode)
	info.State, info.Kind, info.Fair = lockspec.Kept, family.String(), fair
	for i, entry := range entries {
		info.readEntry(entry, notes[i])
	}
	return info, nil
}

// readEntry reads a holder, which may have no note. Of reservations and kept
// permits it notes only that they exist.
func (i *Info) readEntry(entry string, note any) {
	kind, hold, _ := strings.Cut(entry, ":")
	if kind == "v" && i.State == lockspec.Kept {
		i.State = lockspec.Reserved
	}
	if kind != "r" && kind != "w" {
		return
	}
	i.State = lockspec.Held
	client, _, _ := strings.Cut(strings.TrimPrefix(hold, "!"), ":")
	h := &lockspec.Holder{Client: lockspec.ClientName(client), Count: 1}
	if text, err := driver.String(note, nil); err == nil {
		if said, ok := lockspec.ReadNote(text); ok {
			h = said
		}
	}
	h.Forced = lockspec.IsMarked(hold)
	if kind == "w" {
		i.Holder = h
		return
	}
	i.Readers = append(i.Readers, *h)
}
