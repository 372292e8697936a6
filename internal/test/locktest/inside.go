package locktest

import (
	"strings"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/carried"
	"github.com/relock-go/relock/internal/engine"
	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/test/testkit"
)

// Engine returns the engine of the client.
func Engine(c *relock.Client) *lease.Manager { return engine.Of(c) }

// Prefix returns the prefix of the client's keys.
func Prefix(c *relock.Client) string { return strings.TrimSuffix(Engine(c).RedisKey(""), "{}") }

// Level returns the engine's side of a hold.
func Level(h relock.Hold) *lease.Hold { return carried.By(h.Context()).Hold.(*lease.Hold) }

// AwaitRenewal waits until a hold has been renewed once more.
func AwaitRenewal(t testing.TB, h relock.Hold, limit time.Duration) {
	t.Helper()
	awaitLonger(t, h, h.ValidUntil(), limit)
}

// RenewNow makes the renewal of a hold due, for each key, and those of all
// other holds of its clients, as a change of masters does. Only clients that
// went through [CloseLater] are known.
func RenewNow(h relock.Hold) {
	level, known := Level(h), false
	engines.Range(func(e, _ any) bool {
		if m := e.(*lease.Manager); level.IsOf(m) {
			m.NodesChanged(nil)
			known = true
		}
		return true
	})
	if !known && h.Err() == nil {
		panic("locktest: the client of the hold is unknown")
	}
}

// NodesOf returns how many clients a hold is of: for a RedLock, how many nodes
// have granted it. Only clients that went through [CloseLater] count.
func NodesOf(h relock.Hold) (n int) {
	level := Level(h)
	engines.Range(func(e, _ any) bool {
		if level.IsOf(e.(*lease.Manager)) {
			n++
		}
		return true
	})
	return n
}

// Renew makes the renewal of a hold due, and waits for it. It may come
// immediately.
func Renew(t testing.TB, h relock.Hold, limit time.Duration) {
	t.Helper()
	until := h.ValidUntil()
	RenewNow(h)
	awaitLonger(t, h, until, limit)
}

func awaitLonger(t testing.TB, h relock.Hold, until time.Time, limit time.Duration) {
	t.Helper()
	testkit.Eventually(t, limit, func() bool { return h.ValidUntil().After(until) }, "renewed")
}

// NeverStale makes the locks of a client go on to its waiters for an hour, and
// not only for some milliseconds. It returns what undoes that.
func NeverStale(c *relock.Client) (undo func()) {
	e := Engine(c)
	before := e.Limits.HandOffs
	e.Limits.HandOffs.Alone, e.Limits.HandOffs.Beside = time.Hour, time.Hour
	return func() { e.Limits.HandOffs = before }
}
