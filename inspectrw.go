package relock

import (
	"context"
	"strconv"
	"strings"

	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/script"
)

// inspectRW asks what a read/write lock is.
func (c *Client) inspectRW(ctx context.Context, key string) (Info, error) {
	o, _ := c.engine.Eval(ctx, driver.Limits{}, script.Call{Script: script.RWInspect, Key: c.engine.RedisKey(key)})
	if o.Err != nil {
		return Info{}, driver.Ended(ctx, o.Err)
	}
	return readRWInfo(key, o.Reply)
}

// readRWInfo reads the answer of rw_inspect.lua.
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
	info.Waiters, info.Left = readWaiters(waits, now), timeLeft(left)
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

// readEntry reads who holds, of whom nothing may be noted; reservations are for waits that are over soon.
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

// readNote reads what stands beside a read/write lock for people: levels that read and that write, client, host, pid, label,
// since, owner.
func (h *Holder) readNote(text string) {
	parts := strings.SplitN(text, "|", 9)
	var about Info
	if len(parts) != 9 || about.readHolder(parts[3:8]) != nil {
		return
	}
	*h = *about.Holder
	reads, writes, _ := strings.Cut(parts[0], ":")
	r, _ := strconv.Atoi(reads) // written by our scripts alone
	w, _ := strconv.Atoi(writes)
	h.Count = r + w
	h.Owner = ownerName(strings.TrimPrefix(parts[8], h.Client+":"))
}
