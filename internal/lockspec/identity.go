package lockspec

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/relock-go/relock/utils"
)

// Identity is how a client signs what it stores.
type Identity struct {
	ID      string // a UUID, new for each client
	Process string // "|client|host|pid|"
}

// MaxHost limits the bytes of a host's name, as escaped.
const MaxHost = 100

// NewIdentity returns the identity of a new client in this process.
func NewIdentity() (Identity, error) {
	id, err := utils.NewID()
	if err != nil {
		return Identity{}, fmt.Errorf("no randomness: %w", err)
	}
	host, pid := utils.Process()
	host = Escape(host)
	return Identity{ID: id, Process: "|" + id + "|" + host[:min(len(host), MaxHost)] + "|" + strconv.Itoa(pid) + "|"}, nil
}

// Value returns what a plain lock stores under a hold id.
func (i Identity) Value(hold string, s *Spec) string {
	mark := "relock/1|p|"
	if s.Fair {
		mark = "relock/1|f|"
	}
	return mark + hold + i.Process + s.Label + "|" + since()
}

// Hold returns the id of the hold that the client's n-th wait takes. No two
// waits share one.
func (i Identity) Hold(n uint64) string { return i.ID + ":" + strconv.FormatUint(n, 10) }

// WaitName returns the name of a wait, which tells scripts all that a hand-off
// needs of it.
func WaitName(hold string, s *Spec) string {
	mode := byte('u')
	if s.Fair {
		mode = 'f'
	}
	return hold + ":" + string([]byte{s.Kind.Wait, mode}) + ":" + strconv.FormatInt(s.ClaimLease().Milliseconds(), 10)
}

// KeptValue returns what a plain lock stores after its release, for the rest of
// its minimum hold.
func KeptValue(value string) string { return "relock/1|k" + value[len("relock/1|p"):] }

// Info returns what a reentrant lock stores of its holder.
func (i Identity) Info(label string) string { return "relock/1|r" + i.Process + label + "|" + since() }

// RWInfo returns what a read/write lock stores of a holder.
func (i Identity) RWInfo(label string) string {
	return "relock/1|s" + i.Process + label + "|" + since()
}

// since is for people: no decision depends on a client's clock.
func since() string { return strconv.FormatInt(time.Now().UnixMilli(), 10) }

// Goroutine names the calling goroutine as an owner.
func (i Identity) Goroutine() string {
	return i.ID + ":g:" + strconv.FormatInt(utils.GoroutineID(), 10)
}

// Named names an owner by a name that the user gave.
func (i Identity) Named(name string) string { return i.ID + ":n:" + name }

// CutHold splits the name of a wait after the id of its hold.
func CutHold(name string) (hold, rest string) {
	client, numbered, _ := strings.Cut(name, ":")
	n, rest, _ := strings.Cut(numbered, ":")
	return client + ":" + n, rest
}

// Escape makes s safe to stand between bars in a value.
func Escape(s string) string { return strings.ReplaceAll(url.QueryEscape(s), "+", "%20") }
