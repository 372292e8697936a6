package relock

import (
	"fmt"
	"strconv"
	"time"

	"github.com/relock-go/relock/utils"
)

// maxKey limits the names of locks.
const maxKey = 1024

// checkKey reports why name cannot be the name of a lock. Redis takes what stands in braces for the slot, so
// a name that starts with a closing brace, and the empty one, would lose the lock and its queue to different
// slots.
func checkKey(m *mistakes, name string) {
	m.check(name != "", "key: is empty")
	m.check(len(name) <= maxKey, "key: longer than %d bytes", maxKey)
	m.check(name == "" || name[0] != '}', "key: %.40q starts with a closing brace", name)
}

// identity is how a client signs what it stores.
type identity struct {
	id      string // a UUID, new for each client
	process string // "|client|host|pid|"
}

const maxHost = 100 // bytes of a host's name, as escaped

func newIdentity() (identity, error) {
	id, err := utils.NewID()
	if err != nil {
		return identity{}, fmt.Errorf("no randomness: %w", err)
	}
	host, pid := utils.Process()
	host = escape(host)
	return identity{id: id, process: "|" + id + "|" + host[:min(len(host), maxHost)] + "|" + strconv.Itoa(pid) + "|"}, nil
}

// value is what a plain lock stores under a hold id.
func (i identity) value(hold string, s *lockSettings) string {
	mark := "relock/1|p|"
	if s.fair {
		mark = "relock/1|f|"
	}
	return mark + hold + i.process + s.label + "|" + since()
}

// hold is the id of the hold that the client's n-th wait takes. No two waits share one.
func (i identity) hold(n uint64) string { return i.id + ":" + strconv.FormatUint(n, 10) }

// waitOf names a wait, so that scripts know all that a hand-over needs of it.
func waitOf(hold string, s *lockSettings) string {
	mode := byte('u')
	if s.fair {
		mode = 'f'
	}
	return hold + ":" + string([]byte{s.kind.wait, mode}) + ":" + strconv.FormatInt(s.claim().Milliseconds(), 10)
}

// keptValue is what it stores after its release, for the rest of its minimum hold.
func keptValue(value string) string { return "relock/1|k" + value[len("relock/1|p"):] }

// info is what a reentrant lock stores of its holder.
func (i identity) info(label string) string { return "relock/1|r" + i.process + label + "|" + since() }

// since is for people: nothing is decided by a client's clock.
func since() string { return strconv.FormatInt(time.Now().UnixMilli(), 10) }

// The owners of a reentrant lock: a goroutine or a name, both within one client.
func (i identity) goroutine() string {
	return i.id + ":g:" + strconv.FormatInt(utils.GoroutineID(), 10)
}
func (i identity) named(name string) string { return i.id + ":n:" + name }

// quote writes a name for people; nothing in it breaks a line.
func quote(name string) string { return strconv.Quote(name) }

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
