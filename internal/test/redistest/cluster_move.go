package redistest

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
)

// Move is a slot on its way between two masters. Requests for keys that the
// old master lacks are redirected to the new one by ASK. Those for several
// keys of which some have moved are answered with TRYAGAIN.
type Move struct {
	c        *Cluster
	slot     int
	from, to *Server

	Ended time.Time // when both had been given the slot's new place, by Finish
}

// MoveSlot moves a slot with its keys to another master immediately, and waits
// until all servers know it. Moving it back is another move.
func (c *Cluster) MoveSlot(tb testing.TB, slot int, to *Server) {
	tb.Helper()
	c.BeginMove(tb, slot, to).Finish(tb)
}

// MoveSlotSlowly is MoveSlot with pauses: after the move has begun, after each
// key, and before it ends. It returns the number of keys that it has moved
// one by one.
func (c *Cluster) MoveSlotSlowly(tb testing.TB, slot int, to *Server, pause time.Duration) (moved int) {
	tb.Helper()
	m := c.BeginMove(tb, slot, to)
	time.Sleep(pause)
	for keys := m.Left(tb, 1); len(keys) > 0; keys = m.Left(tb, 1) {
		m.MoveKeys(tb, keys...)
		moved++
		time.Sleep(pause)
	}
	m.Finish(tb)
	return moved
}

// BeginMove begins to move a slot, and moves no keys. The slot stays half moved
// until Finish.
func (c *Cluster) BeginMove(tb testing.TB, slot int, to *Server) *Move {
	tb.Helper()
	m := &Move{c: c, slot: slot, from: c.Master(tb, slot), to: to}
	if m.from == to {
		tb.Fatalf("slot %d is at %s already", slot, to)
	}
	to.Do(tb, "CLUSTER", "SETSLOT", slot, "IMPORTING", c.ids[m.from])
	m.from.Do(tb, "CLUSTER", "SETSLOT", slot, "MIGRATING", c.ids[to])
	return m
}

// Left returns at most n keys of the slot that the old master still has.
func (m *Move) Left(tb testing.TB, n int) []string {
	tb.Helper()
	keys, err := redis.Strings(m.from.Do(tb, "CLUSTER", "GETKEYSINSLOT", m.slot, n), nil)
	if err != nil {
		tb.Fatal(err)
	}
	return keys
}

// MoveKeys moves these keys to the new master. Those that do not exist are
// left out.
func (m *Move) MoveKeys(tb testing.TB, keys ...string) {
	tb.Helper()
	host, port := m.to.hostPort(tb)
	args := []any{host, port, "", 0, 5000, "KEYS"}
	for _, key := range keys {
		args = append(args, key)
	}
	m.from.Do(tb, "MIGRATE", args...)
}

// Finish moves the keys that are left, gives the slot to the new master, and
// waits until all servers know it. The new master comes first: the old one
// redirects to it until then.
func (m *Move) Finish(tb testing.TB) {
	tb.Helper()
	m.c.awaitEpoch(tb)
	for keys := m.Left(tb, 100); len(keys) > 0; keys = m.Left(tb, 100) {
		m.MoveKeys(tb, keys...)
	}
	for i, s := range m.ordered(tb) {
		s.Do(tb, "CLUSTER", "SETSLOT", m.slot, "NODE", m.c.ids[m.to])
		if i == 1 {
			m.Ended = time.Now()
		}
	}
	await(tb, "not all servers know where the slot is", func() bool {
		v := m.c.agreed(tb)
		return v != nil && v.masters[m.slot] == m.to
	})
}

// awaitEpoch waits until all servers know of the moves before. Otherwise the
// new master could take an epoch that another one has taken, and they disagree
// for ever.
func (c *Cluster) awaitEpoch(tb testing.TB) {
	tb.Helper()
	await(tb, "the servers of the Cluster know different epochs", func() bool {
		known := map[string]bool{}
		for _, s := range c.answering() {
			info, _ := redis.String(s.Try(tb, "CLUSTER", "INFO"))
			_, rest, _ := strings.Cut(info, "cluster_current_epoch:")
			epoch, _, _ := strings.Cut(rest, "\r")
			known[epoch] = true
		}
		return len(known) == 1
	})
}

// ordered returns all masters that answer, first those of the move.
func (m *Move) ordered(tb testing.TB) []*Server {
	tb.Helper()
	all := []*Server{m.to, m.from}
	for _, s := range m.c.answering() {
		if !slices.Contains(all, s) && s.link(tb) == "master" {
			all = append(all, s)
		}
	}
	return all
}
