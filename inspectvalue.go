package relock

import (
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/lockspec"
)

// readString reads what a plain lock stores, or a reservation.
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

// readHash reads what a reentrant lock stores.
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
		if owner, ok := strings.CutPrefix(name, i.Holder.Client+":"); ok {
			i.Holder.Owner = ownerName(owner)
			i.Holder.Count, _ = strconv.Atoi(value) // written by our scripts alone
		}
	}
	return nil
}

// ownerName is an owner for people.
func ownerName(owner string) string {
	kind, name, _ := strings.Cut(owner, ":")
	if kind == "g" {
		return "goroutine " + name
	}
	return name
}

// readHolder reads client, host, pid, label and since.
func (i *Info) readHolder(parts []string) error {
	if len(parts) != 5 {
		return errUnreadable
	}
	h := &Holder{Client: parts[0], Count: 1}
	h.Host, _ = url.QueryUnescape(parts[1]) // cut when it was long: then as much as can be read
	h.Label, _ = url.QueryUnescape(parts[3])
	h.PID, _ = strconv.Atoi(parts[2])
	if ms, err := strconv.ParseInt(parts[4], 10, 64); err == nil {
		h.Since = time.UnixMilli(ms)
	}
	i.Holder = h
	return nil
}
