package lease

import (
	"slices"
	"time"

	"github.com/relock-go/relock/internal/errs"
)

// What the hold of a group does otherwise than that of a lease.

// IsOf reports whether the client has the lease of the hold, or of one of its
// members.
func (h *Hold) IsOf(m *Manager) bool { return h.grant.isOf(m.client) }

// unlock ends the hold here first. Then it releases all members.
func (g *Group) unlock(h *Hold) (err error) {
	start := time.Now()
	_ = h.errAt(start) // the clock decides, not whether a timer has fired
	g.Mu.Lock()
	if h.unlocked {
		g.Mu.Unlock()
		return errs.ErrNotHeld
	}
	defer func() { h.report.Done("unlock", err) }()
	if h.ends.Err() != nil {
		defer g.Mu.Unlock()
		return h.unlockLost()
	}
	h.unlocked = true
	h.end(start, errs.ErrNotHeld)
	g.Finish(errs.ErrNotHeld)
	g.Mu.Unlock()
	err = g.release()
	g.Mu.Lock()
	defer g.Mu.Unlock()
	h.noteLoss(err)
	return err
}

// covers reports whether key is one of the keys.
func (g *Group) covers(key string) bool {
	return g.Name == key && g.keys == nil || slices.Contains(g.keys, key)
}

// isOf reports whether the client has the lease of a member.
func (g *Group) isOf(c *client) bool {
	return slices.ContainsFunc(g.joined(), func(one member) bool { return one.lease.client == c })
}

// checkSuspended checks for a suspend on behalf of the clients of all members.
// Each ends its own.
func (g *Group) checkSuspended(now time.Time) {
	g.client.CheckSuspended(now)
	if g.keys != nil {
		return // which are of one client
	}
	for _, one := range g.joined() {
		one.lease.client.CheckSuspended(now)
	}
}

// unused notes that the caller had no use for the hold.
func (g *Group) unused() { g.returned.Store(false) }

// unlimited returns the hold if it is live and has no maximum, or nil.
func (g *Group) unlimited(*Lease) *Hold {
	g.Mu.Lock()
	defer g.Mu.Unlock()
	if h := &g.hold; h.grant != nil && h.isUnlimited() {
		return h
	}
	return nil
}

func (g *Group) single() *Lease { return nil }

func (g *Group) ofClient() *client { return g.client }

func (g *Group) levelEnded(*Hold) {}

// levelExpired ends the group, which has no other level; Mu must be held.
func (g *Group) levelExpired(_ *Hold, why error) (follow func()) { return g.LoseLocked(why) }
