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

// MaxHost limits the bytes of an escaped host name.
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

// Value returns what a plain lock stores for a hold ID.
func (i Identity) Value(hold string, s *Spec) string {
	return mark(s.Fair) + hold + i.Process + s.Label + "|" + since()
}

// ValueOf returns what the value of a plain lock with this hold ID begins with.
func ValueOf(hold string, fair bool) string { return mark(fair) + hold + "|" }

func mark(fair bool) string {
	if fair {
		return "relock/1|f|"
	}
	return "relock/1|p|"
}

// Hold returns the ID of the hold that the client's n-th waiter takes. No two
// waiters share one.
func (i Identity) Hold(n uint64) string { return i.ID + ":" + strconv.FormatUint(n, 10) }

// WaitName returns the name of a waiter. It contains all that a hand-off in a
// script needs to know about the waiter.
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

// Info returns what a reentrant lock stores about its holder.
func (i Identity) Info(label string) string { return "relock/1|r" + i.Process + label + "|" + since() }

// RWInfo returns what a read/write lock stores about a holder.
func (i Identity) RWInfo(label string) string {
	return "relock/1|s" + i.Process + label + "|" + since()
}

// since returns the current time, for people only. No decision depends on a
// client's clock.
func since() string { return strconv.FormatInt(time.Now().UnixMilli(), 10) }

// Goroutine returns the ID of the calling goroutine as an owner.
func (i Identity) Goroutine() string {
	return i.ID + ":g:" + strconv.FormatInt(utils.GoroutineID(), 10)
}

// Named returns the ID of an owner with a name that the user gave.
func (i Identity) Named(name string) string { return i.ID + ":n:" + name }

// DetachedOwner is the owner of a detached reentrant lock. No client has it.
const DetachedOwner = ":n:detached"

// OwnerName returns the name of an owner for people, such as "goroutine 12".
func OwnerName(id string) string {
	_, named, _ := strings.Cut(id, ":")
	kind, name, _ := strings.Cut(named, ":")
	if kind == "g" {
		return "goroutine " + name
	}
	return name
}

// CutHold splits the name of a waiter after its hold ID.
func CutHold(name string) (hold, rest string) {
	client, numbered, _ := strings.Cut(name, ":")
	n, rest, _ := strings.Cut(numbered, ":")
	return client + ":" + n, rest
}

// Escape escapes s, so that it can be a field between bars in a value.
func Escape(s string) string { return strings.ReplaceAll(url.QueryEscape(s), "+", "%20") }
