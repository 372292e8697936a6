package lockspec

import (
	"fmt"
	"strings"

	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/redis/driver"
)

// Found is what a key is, for readers of an error.
type Found struct {
	State string // Held, Reserved, Kept or Foreign; "" if it is not known
	Kind  string // as [Family.String] has it; "" if it is not a lock
}

// The states of a key.
const (
	Free     = "free"
	Held     = "held"
	Reserved = "reserved"
	Kept     = "kept"
	Foreign  = "alien"
)

// KeyConflict returns the error of a call with these settings that met a key of
// another kind. answer is that of the script.
func (s *Spec) KeyConflict(answer any) error {
	return fmt.Errorf("%w: %s", errs.ErrKeyConflict, s.conflict(ReadFound(answer)))
}

// conflict says what was found, and what a call with these settings requested:
// "held as a ReentrantLock, requested as a RedisLock". It names both as users
// make them. Fair and unfair callers of one kind do not conflict.
func (s *Spec) conflict(f Found) string {
	requested := "requested as " + madeAs(s.Kind.maker)
	switch {
	case f.State == "":
		return requested
	case f.Kind == "":
		return "used by another program, " + requested
	}
	return f.State + " as " + madeAs(makerOf(f.Kind)) + ", " + requested
}

// makerOf returns what users make a lock of a family with, by its name.
func makerOf(family string) string {
	for _, k := range kinds {
		if k.Family.String() == family {
			return k.maker
		}
	}
	return family
}

func madeAs(maker string) string {
	if maker == Read.maker {
		return "an " + maker
	}
	return "a " + maker
}

// Noun returns what the lock is called, such as "plain lock".
func (s *Spec) Noun() string {
	if s.Kind != nil && s.Kind.Counted {
		return s.Kind.name
	}
	return s.KindName() + " lock"
}

func modeOf(fair bool) string {
	if fair {
		return "fair"
	}
	return "unfair"
}

// ReadFound reads what a script has found that acquires a lock, and whose key
// is of another kind: the last part of its answer.
func ReadFound(answer any) (f Found) {
	parts, _ := driver.Values(answer, nil)
	if len(parts) == 0 {
		return f
	}
	key, _ := driver.String(parts[len(parts)-1], nil)
	kind, ours := strings.CutPrefix(key, "relock/1|")
	letter, rest, isValue := strings.Cut(kind, "|")
	switch {
	case key == "":
		return f
	case ours && letter == "r":
		return Found{State: reentrantState(rest), Kind: ReentrantFamily.String()}
	case ours && !isValue && len(letter) <= 2:
		family, _ := ReadMode(letter)
		return Found{State: Held, Kind: family.String()}
	}
	if s, _ := readValue(key); s.Kind != "" {
		return Found{State: s.State, Kind: s.Kind}
	}
	return Found{State: Foreign}
}

// ReadMode reads the mode that rw_inspect.lua returns.
func ReadMode(mode string) (f Family, fair bool) {
	if mode != "" {
		if k := kindOfWait(mode[0]); k != nil {
			return k.Family, mode[1:] == "f"
		}
	}
	return RWFamily, mode == "f"
}
