package relock

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/lockspec"
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

// readRWInfo reads the reply of rw_inspect.lua.
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
	switch state {
	case "alien":
		return info, ErrKeyConflict
	case "free":
		return info, nil
	}
	info.State, info.Kind, info.Fair = StateReserved, lockspec.RWFamily.String(), mode == "f"
	for i, entry := range entries {
		info.readEntry(entry, notes[i])
	}
	return info, nil
}

// readEntry reads a holder, which may have no note. It skips reservations,
// because their waiters take the lock soon.
func (i *Info) readEntry(entry string, note any) {
	kind, hold, _ := strings.Cut(entry, ":")
	if kind != "r" && kind != "w" {
		return
	}
	i.State = StateHeld
	client, _, _ := strings.Cut(hold, ":")
	h := Holder{Client: client, Count: 1}
	if text, err := driver.String(note, nil); err == nil {
		h.readNote(text)
	}
	if kind == "w" {
		i.Holder = &h
		return
	}
	i.Readers = append(i.Readers, h)
}

// readNote reads what a read/write lock stores for people about a holder: read
// and write levels, client, host, pid, label, since, owner.
func (h *Holder) readNote(text string) {
	parts := strings.SplitN(text, "|", 9)
	var about Info
	if len(parts) != 9 || about.readHolder(parts[3:8]) != nil {
		return
	}
	*h = *about.Holder
	reads, writes, _ := strings.Cut(parts[0], ":")
	r, _ := strconv.Atoi(reads) // written only by our scripts
	w, _ := strconv.Atoi(writes)
	h.Count = r + w
	h.Owner = lockspec.OwnerName(parts[8])
}

// readString reads the value of a plain lock, or a reservation.
func (i *Info) readString(value string) error {
	if value == "" {
		return nil
	}
	parts := strings.Split(value, "|")
	if parts[0] != "relock/1" || len(parts) < 3 {
		return errUnreadable
	}
	i.Kind = lockspec.PlainFamily.String()
	switch parts[1] {
	case "w":
		wait := readWaiters([]string{parts[2], ""}, 0)
		if len(wait) != 1 {
			return errUnreadable
		}
		i.State, i.Kind, i.Fair = StateReserved, wait[0].Kind, wait[0].Fair
		return nil
	case "p", "f":
		i.State, i.Fair = StateHeld, parts[1] == "f"
	case "k":
		i.State = StateKept
	default:
		return errUnreadable
	}
	return i.readHolder(parts[3:])
}

// readHash reads the hash of a reentrant lock.
func (i *Info) readHash(content []any) error {
	fields, err := driver.StringMap(content, nil)
	if err != nil {
		return errUnreadable
	}
	parts := strings.Split(fields["info"], "|")
	if parts[0] != "relock/1" || len(parts) < 3 {
		return errUnreadable
	}
	i.State, i.Kind, i.Fair = StateHeld, lockspec.ReentrantFamily.String(), fields["mode"] == "f"
	if strings.HasPrefix(fields["hold"], "kept:") {
		i.State = StateKept
	}
	if err := i.readHolder(parts[2:]); err != nil {
		return err
	}
	i.Holder.Count = 0
	for name, value := range fields {
		if name == lockspec.DetachedOwner || strings.HasPrefix(name, i.Holder.Client+":") {
			i.Holder.Owner = lockspec.OwnerName(name)
			i.Holder.Count, _ = strconv.Atoi(value) // written only by our scripts
		}
	}
	return nil
}

// readHolder reads client, host, pid, label and since.
func (i *Info) readHolder(parts []string) error {
	if len(parts) != 5 {
		return errUnreadable
	}
	h := &Holder{Client: parts[0], Count: 1}
	h.Host, _ = url.QueryUnescape(parts[1]) // a long one was cut; this is the readable part
	h.Label, _ = url.QueryUnescape(parts[3])
	h.PID, _ = strconv.Atoi(parts[2])
	if ms, err := strconv.ParseInt(parts[4], 10, 64); err == nil {
		h.Since = time.UnixMilli(ms)
	}
	i.Holder = h
	return nil
}
