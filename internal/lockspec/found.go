package lockspec

import (
	"strings"
	"time"

	"github.com/relock-go/relock/internal/driver"
)

// Found is what a key is, for people who read an error. Its String is the first
// half of "held as a fair plain lock, requested as unfair".
type Found struct {
	State string // Free, Kept, Foreign, "held" or "reserved"
	Kind  string // as [Family.String] has it; "" if it is not a lock
	mode  string // "fair", "unfair", or "" if that is not stored
	Left  time.Duration
}

// The states that need care.
const (
	Free    = "free"
	Kept    = "kept"
	Foreign = "alien"
)

// String says what was found.
func (f Found) String() string {
	switch {
	case f.State == Free:
		return "free again"
	case f.Kind == "":
		return "used by another program"
	}
	return f.State + " as " + lockOf(f.mode, f.Kind)
}

// Asked returns how a lock with these settings was requested. It is only the
// mode if a lock of that kind was found.
func (s *Spec) Asked(found Found) string {
	if found.Kind == s.Kind.Family.String() {
		return modeOf(s.Fair)
	}
	return lockOf(modeOf(s.Fair), s.Kind.Family.String())
}

func lockOf(mode, kind string) string {
	switch mode {
	case "":
		return "a " + kind + " lock"
	case "unfair":
		return "an unfair " + kind + " lock"
	}
	return "a " + mode + " " + kind + " lock"
}

func modeOf(fair bool) string {
	if fair {
		return "fair"
	}
	return "unfair"
}

// ReadFound reads the reply of inspect.lua: state, content, ms left, and more.
// It reports whether the reply is one.
func ReadFound(reply any) (f Found, ok bool) {
	parts, err := driver.Values(reply, nil)
	if err != nil || len(parts) < 3 {
		return f, false
	}
	f.State, _ = driver.String(parts[0], nil)
	left, _ := driver.Int64(parts[2], nil)
	f.Left = time.Duration(left) * time.Millisecond
	switch content := parts[1].(type) {
	case []byte:
		f.readValue(string(content))
	case []any:
		f.readHash(content)
	}
	return f, true
}

// readValue reads the value of a plain lock, or a reservation.
func (f *Found) readValue(value string) {
	mark, rest, _ := strings.Cut(strings.TrimPrefix(value, "relock/1|"), "|")
	switch mark {
	case "p", "f":
		f.Kind, f.mode = PlainFamily.String(), modeOf(mark == "f")
	case "k":
		f.State, f.Kind = Kept, PlainFamily.String()
	case "w":
		_, wait := CutHold(rest)
		if len(wait) < 2 {
			return
		}
		if k := KindOfWait(wait[0]); k != nil {
			f.Kind, f.mode = k.Family.String(), modeOf(wait[1] == 'f')
		}
	}
}

func (f *Found) readHash(content []any) {
	fields, _ := driver.StringMap(content, nil)
	f.Kind, f.mode = ReentrantFamily.String(), modeOf(fields["mode"] == "f")
	if strings.HasPrefix(fields["hold"], "kept:") {
		f.State = Kept
	}
}

// ReadFoundRW reads the reply of rw_inspect.lua: state, mode, and more. It
// reports whether the key is a read/write lock.
func ReadFoundRW(reply any) (f Found, ok bool) {
	parts, err := driver.Values(reply, nil)
	if err != nil || len(parts) < 2 {
		return f, false
	}
	state, _ := driver.String(parts[0], nil)
	mode, _ := driver.String(parts[1], nil)
	if state != "read" && state != "write" {
		return f, false
	}
	return Found{State: "held", Kind: RWFamily.String(), mode: modeOf(mode == "f")}, true
}
