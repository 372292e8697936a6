package locktest

import (
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/testkit"
)

// LeaseOf returns the lease of a hold.
func LeaseOf(h relock.Hold) *lease.Lease { return Level(h).Lease() }

// MembersOf returns the members of a group.
func MembersOf(h relock.Hold) []*lease.Hold { return Level(h).Members() }

// AwaitRenewal waits until a hold has been renewed once more.
func AwaitRenewal(t testing.TB, h relock.Hold, limit time.Duration) {
	t.Helper()
	until := h.ValidUntil()
	testkit.Eventually(t, limit, func() bool { return h.ValidUntil().After(until) }, "renewed")
}

// NeverStale makes a hold look as if it could be handed off for an hour.
func NeverStale(h relock.Hold) { GrantedAt(h, time.Now().Add(time.Hour)) }

// GrantedAt makes the lease of a hold look as if Redis had granted it then.
func GrantedAt(h relock.Hold, at time.Time) {
	LeaseOf(h).Set(func(s *lease.State) { s.Granted = at })
}

// ShortenValidity makes a hold valid for only d from now.
func ShortenValidity(h relock.Hold, d time.Duration) {
	LeaseOf(h).Set(func(s *lease.State) { s.ValidUntil = time.Now().Add(d) })
}
