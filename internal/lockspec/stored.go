package lockspec

import (
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/relock-go/relock/internal/redis/driver"
)

// Stored is what the key of a plain or a reentrant lock says. identity.go has
// how it is written.
type Stored struct {
	State  string  // Held, Reserved or Kept; "" if the key is no lock
	Kind   string  // as [Family.String] has it; "" if it is not known
	Mode   string  // "fair", "unfair", or "" if that is not stored
	Holder *Holder // nil if the lock is reserved
}

// Holder is what a lock stores about its holder, with the fields of
// relock.Holder.
type Holder struct {
	Client string
	Host   string
	PID    int
	Label  string
	Since  time.Time
	Owner  string
	Count  int
	Forced bool
}

// ReadContent reads the content of a key in the reply of inspect.lua. It
// reports whether this version has written it. If not, Kind and Mode are set as
// far as they could be read.
func ReadContent(content any) (s Stored, ok bool) {
	switch content := content.(type) {
	case []byte:
		if len(content) > 0 {
			return readValue(string(content))
		}
	case []any:
		fields, err := driver.StringMap(content, nil)
		s, ok = readHash(fields)
		return s, ok && err == nil
	}
	return s, true
}

// readValue reads the value of a plain lock, or a reservation.
func readValue(value string) (s Stored, ok bool) {
	parts := strings.Split(value, "|")
	if parts[0] != "relock/1" || len(parts) < 3 {
		return s, false
	}
	switch parts[1] {
	case "w":
		w, ok := ReadWait(parts[2])
		return Stored{State: Reserved, Kind: w.Kind, Mode: modeOf(w.Fair)}, ok
	case "p", "f":
		s = Stored{State: Held, Kind: PlainFamily.String(), Mode: modeOf(parts[1] == "f")}
	case "k":
		s = Stored{State: Kept, Kind: PlainFamily.String()}
	default:
		return s, false
	}
	if s.Holder, ok = readHolder(parts[3:]); ok {
		s.Holder.Forced = IsMarked(parts[2])
	}
	return s, ok
}

// IsMarked reports whether a stored hold is marked to end by force.
func IsMarked(hold string) bool { return strings.HasPrefix(hold, "!") }

// HoldOf returns the hold ID in the value of a plain lock that is held.
func HoldOf(value string) string { return strings.SplitN(value, "|", 4)[2] }

// readHash reads the hash of a reentrant lock.
func readHash(fields map[string]string) (s Stored, ok bool) {
	state, mode := reentrantState(fields["hold"]), modeOf(fields["mode"] == "f")
	s = Stored{State: state, Kind: ReentrantFamily.String(), Mode: mode}
	parts := strings.Split(fields["info"], "|")
	if parts[0] != "relock/1" || len(parts) < 3 {
		return s, false
	}
	if s.Holder, ok = readHolder(parts[2:]); !ok {
		return s, false
	}
	s.Holder.Count, s.Holder.Forced = 0, IsMarked(fields["hold"])
	for name, value := range fields {
		if name == DetachedOwner || strings.HasPrefix(name, parts[2]+":") {
			s.Holder.Owner = OwnerName(name)
			s.Holder.Count, _ = strconv.Atoi(value) // written only by our scripts
		}
	}
	return s, true
}

// reentrantState returns the state of a reentrant lock with this hold ID.
func reentrantState(hold string) string {
	if strings.HasPrefix(hold, "kept:") {
		return Kept
	}
	return Held
}

// ReadNote reads what a read/write lock stores for people about a holder: read
// and write levels, what [Identity.RWInfo] returns, owner.
func ReadNote(note string) (h *Holder, ok bool) {
	parts := strings.SplitN(note, "|", 9)
	if len(parts) != 9 {
		return nil, false
	}
	if h, ok = readHolder(parts[3:8]); !ok {
		return nil, false
	}
	reads, writes, _ := strings.Cut(parts[0], ":")
	r, _ := strconv.Atoi(reads) // written only by our scripts
	w, _ := strconv.Atoi(writes)
	h.Count, h.Owner = r+w, OwnerName(parts[8])
	return h, true
}

// ReadTaker reads what [Identity.Taker] returns.
func ReadTaker(who string) (h *Holder, ok bool) {
	return readHolder(append(strings.Split(who, "|"), ""))
}

// readHolder reads client, host, pid, label and since.
func readHolder(parts []string) (h *Holder, ok bool) {
	if len(parts) != 5 {
		return nil, false
	}
	h = &Holder{Client: ClientName(parts[0]), Count: 1}
	h.Host, _ = url.QueryUnescape(parts[1]) // a long one was cut; this is the readable part
	h.Label, _ = url.QueryUnescape(parts[3])
	h.PID, _ = strconv.Atoi(parts[2])
	if ms, err := strconv.ParseInt(parts[4], 10, 64); err == nil {
		h.Since = time.UnixMilli(ms)
	}
	return h, true
}

// Wait is what the name of a waiter says. [WaitName] makes it.
type Wait struct {
	Client string
	Kind   string // as [Family.String] has it; "" if it is not known
	Fair   bool

	Permits int // the limit of a waiter for a semaphore; otherwise 0
}

// ReadWait reads the name of a waiter, and reports whether it is one.
func ReadWait(name string) (w Wait, ok bool) {
	parts := strings.Split(name, ":")
	if len(parts) < 4 || len(parts) > 6 || len(parts[2]) != 2 {
		return w, false
	}
	w = Wait{Client: ClientName(parts[0]), Fair: parts[2][1] == 'f'}
	if k := kindOfWait(parts[2][0]); k != nil {
		w.Kind = k.Family.String()
	}
	if len(parts) == 6 {
		w.Permits, _ = strconv.Atoi(parts[4]) // written only by WaitName
	}
	return w, true
}
