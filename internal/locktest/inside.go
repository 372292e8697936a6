package locktest

import (
	"reflect"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/acquire"
	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/testkit"
)

// Engine returns the engine of the client.
func Engine(c *relock.Client) *lease.Manager { return (*lease.Manager)(pointer(c, "engine")) }

// Prefix returns the prefix of the client's keys.
func Prefix(c *relock.Client) string { return strings.TrimSuffix(Engine(c).RedisKey(""), "{}") }

// Level returns the engine's side of a hold.
func Level(h relock.Hold) *lease.Hold { return (*lease.Hold)(pointer(h, "level")) }

// Multi returns the engine's side of the lock.
func Multi(l *relock.MultiLock) *acquire.Multi { return (*acquire.Multi)(pointer(l, "multi")) }

// Quorum returns the engine's side of the lock.
func Quorum(l *relock.RedLock) *acquire.Quorum { return (*acquire.Quorum)(pointer(l, "quorum")) }

// Target returns what the lock is made for, with its settings.
func Target(lock any) *acquire.Target { return (*acquire.Target)(address(lock, "target")) }

// Config returns the settings of the client's connections.
func Config(c *relock.Client) *driver.Config { return (*driver.Config)(pointer(c, "config")) }

// Code returns the script's text and digest.
func Code(s *relock.Script) *script.Script { return (*script.Script)(pointer(s, "code")) }

// Plain returns the engine's side of the lock.
func Plain(l *relock.RedisLock) *acquire.Plain { return (*acquire.Plain)(address(l, "plain")) }

// pointer returns the pointer in an unexported field.
func pointer(of any, field string) unsafe.Pointer {
	return reflect.Indirect(reflect.ValueOf(of)).FieldByName(field).UnsafePointer()
}

// address returns where an unexported field is.
func address(of any, field string) unsafe.Pointer {
	return reflect.Indirect(reflect.ValueOf(of)).FieldByName(field).Addr().UnsafePointer()
}

// LeaseOf returns the lease of a hold.
func LeaseOf(h relock.Hold) *lease.Lease { return Level(h).Lease() }

// MembersOf returns the members of a group.
func MembersOf(h relock.Hold) []*lease.Hold { return Level(h).Members() }

// AwaitRenewal waits until a hold has been renewed once more.
func AwaitRenewal(t testing.TB, h relock.Hold, limit time.Duration) {
	t.Helper()
	awaitLonger(t, h, h.ValidUntil(), limit)
}

// Renew makes the renewal of a hold due, and waits for it. It may come
// immediately.
func Renew(t testing.TB, h relock.Hold, limit time.Duration) {
	t.Helper()
	until := h.ValidUntil()
	LeaseOf(h).RenewNow()
	awaitLonger(t, h, until, limit)
}

func awaitLonger(t testing.TB, h relock.Hold, until time.Time, limit time.Duration) {
	t.Helper()
	testkit.Eventually(t, limit, func() bool { return h.ValidUntil().After(until) }, "renewed")
}

// NeverStale makes a hold look as if it could be handed off for an hour.
func NeverStale(h relock.Hold) { GrantedAt(h, time.Now().Add(time.Hour)) }

// GrantedAt makes the lease of a hold look as if Redis had granted it then.
func GrantedAt(h relock.Hold, at time.Time) {
	LeaseOf(h).Set(func(s *lease.State) { s.Granted = at })
}
