package lockspec

import (
	"time"

	"github.com/relock-go/relock/internal/driver"
)

// Found is what a key is, for people who read an error. Its String is the first
// half of "held as a fair plain lock, requested as unfair".
type Found struct {
	State string // Free, Held, Reserved, Kept or Foreign
	Kind  string // as [Family.String] has it; "" if it is not a lock
	mode  string // "fair", "unfair", or "" if that is not stored
	Left  time.Duration
}

// The states of a key.
const (
	Free     = "free"
	Held     = "held"
	Reserved = "reserved"
	Kept     = "kept"
	Foreign  = "alien"
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
	s, _ := ReadContent(parts[1])
	f.Kind, f.mode = s.Kind, s.Mode
	if s.State == Kept {
		f.State = Kept
	}
	return f, true
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
	return Found{State: Held, Kind: RWFamily.String(), mode: modeOf(mode == "f")}, true
}
