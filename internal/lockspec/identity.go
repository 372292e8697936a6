package lockspec

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/relock-go/relock/utils"
)

// Identity is how a client signs what it stores.
type Identity struct {
	ID      string // a UUID, new for each client, and shardedMark if its messages are sharded
	Process string // "|client|host|pid|"
}

// maxHost limits the bytes of an escaped host name.
const maxHost = 100

// shardedMark ends the ID of a client whose messages go to sharded channels.
// The scripts read it, and no name for people has it.
const shardedMark = "~"

// ClientName returns the ID of a client for people.
func ClientName(id string) string { return strings.TrimSuffix(id, shardedMark) }

// NewIdentity returns the identity of a new client in this process. If sharded
// is true, its messages go to a channel for each lock, in the slot of the lock.
func NewIdentity(sharded bool) (Identity, error) {
	id, err := utils.NewID()
	if err != nil {
		return Identity{}, fmt.Errorf("reading random bytes: %w", err)
	}
	if sharded {
		id += shardedMark
	}
	host, pid := utils.Process()
	host = Escape(host)
	return Identity{ID: id, Process: "|" + id + "|" + host[:min(len(host), maxHost)] + "|" + strconv.Itoa(pid) + "|"}, nil
}

// Value returns what a plain lock stores for a hold ID.
func (i Identity) Value(hold string, s *Spec) string {
	var digits [20]byte
	return mark(s.Fair) + hold + i.Process + s.Label + "|" + string(since(digits[:0]))
}

// NewValue returns what a plain lock stores for a new hold. Its hold ID is
// drawn at random.
func (i Identity) NewValue(s *Spec) (string, error) {
	var id uuid.UUID
	if _, err := rand.Read(id[:]); err != nil {
		return "", err
	}
	text := textOf(id)
	var digits [20]byte
	return mark(s.Fair) + string(text[:]) + i.Process + s.Label + "|" + string(since(digits[:0])), nil
}

// textOf returns a random UUID with these bits as a text. It is a string of the
// uuid package that needs no memory.
func textOf(id uuid.UUID) (text [36]byte) {
	id[6] = id[6]&0x0f | 0x40 // version 4
	id[8] = id[8]&0x3f | 0x80 // variant of RFC 9562
	at := 0
	for i, b := range id {
		if i == 4 || i == 6 || i == 8 || i == 10 {
			text[at] = '-'
			at++
		}
		hex.Encode(text[at:], []byte{b})
		at += 2
	}
	return text
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
	name := hold + ":" + string([]byte{s.Kind.Wait, mode}) + ":" + strconv.FormatInt(s.ClaimLease().Milliseconds(), 10)
	if s.Kind.Counted {
		name += ":" + strconv.Itoa(int(s.Permits)) + ":" + strconv.FormatInt(s.MinHold.Milliseconds(), 10)
	}
	return name
}

// NoncedName returns the name of a waiter that a message may grant the lock.
func NoncedName(hold string, s *Spec) string {
	var nonce [8]byte
	_, _ = rand.Read(nonce[:]) // never fails
	return WaitName(hold, s) + ":" + hex.EncodeToString(nonce[:])
}

// Reservation returns what a lock stores that is reserved for a waiter.
func Reservation(name string) string { return "relock/1|w|" + name }

// ReservedFor returns the waiter in what [Reservation] returns.
func ReservedFor(stored string) string { return strings.TrimPrefix(stored, Reservation("")) }

// KeptValue returns what a plain lock stores after its release, for the rest of
// its minimum hold.
func KeptValue(value string) string { return "relock/1|k" + value[len("relock/1|p"):] }

// Info returns what a reentrant lock stores about its holder.
func (i Identity) Info(label string) string {
	var digits [20]byte
	return "relock/1|r" + i.Process + label + "|" + string(since(digits[:0]))
}

// RWInfo returns what a read/write lock stores about a holder.
func (i Identity) RWInfo(label string) string {
	var digits [20]byte
	return "relock/1|s" + i.Process + label + "|" + string(since(digits[:0]))
}

// Taker returns what a task stores about the client that has it.
func (i Identity) Taker(label string) string { return i.Process[1:] + label }

// since appends the current time, for people only. No decision depends on a
// client's clock.
func since(to []byte) []byte { return strconv.AppendInt(to, time.Now().UnixMilli(), 10) }

// Goroutine returns the ID of the calling goroutine as an owner.
func (i Identity) Goroutine() string {
	var digits [20]byte
	return i.ID + ":g:" + string(strconv.AppendInt(digits[:0], utils.GoroutineID(), 10))
}

// Named returns the ID of an owner with a name that the user gave.
func (i Identity) Named(name string) string { return i.ID + ":n:" + name }

// DetachedOwner is the owner of a detached reentrant lock. No client has it.
const DetachedOwner = ":n:detached"

// DetachedHold returns the ID of a detached hold. It begins as its owner does,
// so that a script knows that no client has it.
func DetachedHold(id string) string { return ":" + id }

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
