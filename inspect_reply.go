package relock

import (
	"fmt"
	"strings"
	"time"

	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/redis/driver"
)

var errUnreadable = fmt.Errorf("%w: not written by this version", ErrKeyConflict)

// readInfo reads the reply of inspect.lua.
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
	info.Remaining = timeLeft(left)
	_, _ = fmt.Sscan(fence, &info.Fence) // "false" when there is none
	info.Waiters = readWaiters(waits, now)
	stored, ok := lockspec.ReadContent(parts[1])
	switch {
	case state == lockspec.Foreign:
		return info, ErrKeyConflict
	case !ok:
		return info, errUnreadable
	case stored.State != "":
		info.State, info.Kind, info.Fair = State(stored.State), stored.Kind, stored.Mode == "fair"
		info.Holder = (*Holder)(stored.Holder)
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
func readRWInfo(key string, reply any) (Info, error) {
	info := Info{Key: key, State: StateFree}
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
		return info, ErrKeyConflict
	case lockspec.Free:
		return info, nil
	}
	family, fair := lockspec.ReadMode(mode)
	info.State, info.Kind, info.Fair = StateKept, family.String(), fair
	for i, entry := range entries {
		info.readEntry(entry, notes[i])
	}
	return info, nil
}

// readEntry reads a holder, which may have no note. Of reservations and kept
// permits it notes only that they exist.
func (i *Info) readEntry(entry string, note any) {
	kind, hold, _ := strings.Cut(entry, ":")
	if kind == "v" && i.State == StateKept {
		i.State = StateReserved
	}
	if kind != "r" && kind != "w" {
		return
	}
	i.State = StateHeld
	client, _, _ := strings.Cut(hold, ":")
	h := &Holder{Client: lockspec.ClientName(client), Count: 1}
	if text, err := driver.String(note, nil); err == nil {
		if said, ok := lockspec.ReadNote(text); ok {
			h = (*Holder)(said)
		}
	}
	if kind == "w" {
		i.Holder = h
		return
	}
	i.Readers = append(i.Readers, *h)
}
