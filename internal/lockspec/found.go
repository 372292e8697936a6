package lockspec

import (
	"strings"
	"time"

	"github.com/relock-go/relock/internal/redis/driver"
)

// Found is what a key is, for readers of an error.
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

// Conflict says what was found, and how a lock with these settings was
// requested: "held as a fair plain lock, requested as unfair". Without
// WithFair, the mode is only named if it is the conflict.
func (s *Spec) Conflict(f Found) string {
	kind := s.Kind.Family.String()
	if f.Kind == kind {
		return f.State + " as " + lockOf(f.mode, kind) + ", requested as " + modeOf(s.Fair)
	}
	requested := "requested as " + lockOf(modeIf(s.Fair), kind)
	switch {
	case f.State == "":
		return requested
	case f.State == Free:
		return "free again, " + requested
	case f.Kind == "":
		return "used by another program, " + requested
	}
	return f.State + " as " + lockOf(modeIf(f.mode == modeOf(true)), f.Kind) + ", " + requested
}

func lockOf(mode, kind string) string {
	switch mode {
	case "":
		return "a " + nounOf(kind)
	case "unfair":
		return "an unfair " + nounOf(kind)
	}
	return "a " + mode + " " + nounOf(kind)
}

// Noun returns what the lock is called, such as "plain lock".
func (s *Spec) Noun() string { return nounOf(s.KindName()) }

func nounOf(kind string) string {
	if kind == SemaphoreFamily.String() {
		return kind
	}
	return kind + " lock"
}

// modeIf returns the mode of a fair lock, and none for any other.
func modeIf(fair bool) string {
	if fair {
		return modeOf(true)
	}
	return ""
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
// reports whether the key is a read/write lock or a semaphore.
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
	family, fair := ReadMode(mode)
	return Found{State: Held, Kind: family.String(), mode: modeOf(fair)}, true
}

// ReadMode reads the mode that rw_inspect.lua returns.
func ReadMode(mode string) (f Family, fair bool) {
	letter, semaphore := strings.CutPrefix(mode, "c")
	if semaphore {
		return SemaphoreFamily, letter == "f"
	}
	return RWFamily, letter == "f"
}
