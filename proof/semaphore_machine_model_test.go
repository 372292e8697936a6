package proof

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/testkit"
)

// permitModel is what the server must have. It knows the times of an entry once
// it has seen them.
type permitModel struct {
	entries map[string]permitEntry // by the id of the hold
	ended   map[string]permitEntry // by their time, which are back if the clock is set back
	queue   []*permitWait
}

type permitEntry struct {
	kind   string        // as at the server: r in use, k kept, f forced and kept
	length time.Duration // of the lease, or of the minimum hold if that is longer
	keep   time.Duration // the minimum hold
	ends   int64         // by the server's clock, in us
	kept   int64         // the end of the minimum hold
	recent bool          // of this step, in which a copy may renew the lease

	extended time.Duration // in this step, if not 0
	maybe    bool          // nobody knows whether it was extended
}

// permitWait is a call that waits, or that was granted just now.
type permitWait struct {
	permitCall
	id     string
	ticket int64
	cancel context.CancelFunc
	result chan permitResult
}

type permitResult struct {
	hold relock.Hold
	err  error
}

// permitCall is what a call asks for.
type permitCall struct {
	client, limit int
	lease, keep   time.Duration
	label         string // no other call has it
}

func (c permitCall) entry() permitEntry {
	return permitEntry{kind: "r", length: max(c.lease, c.keep), keep: c.keep, recent: true}
}

func (w *permitWait) await(t require.TestingT) relock.Hold {
	r, ok := testkit.Await(w.result, machinePatience)
	require.True(t, ok, "a waiter does not return that was granted a permit")
	require.NoError(t, r.err)
	return r.hold
}

func (m *permitModel) fits(c permitCall) bool { return len(m.entries) < c.limit }

// handOff serves the first waiters, until one does not fit.
func (m *permitModel) handOff() (granted []*permitWait) {
	for len(m.queue) > 0 && m.fits(m.queue[0].permitCall) {
		w := m.queue[0]
		m.queue, granted = m.queue[1:], append(granted, w)
		m.entries[w.id] = w.entry()
	}
	return granted
}

// leave ends the hold of an entry, which stays for its minimum hold.
func (m *permitModel) leave(id, kind string, now int64) {
	e := m.entries[id]
	e.kind, e.ends = kind, e.kept
	m.entries[id] = e
	m.expire(now)
}

// settle ends a step: no entry changes any more.
func (m *permitModel) settle() {
	for id, e := range m.entries {
		e.recent, e.extended, e.maybe = false, 0, false
		m.entries[id] = e
	}
}

func (m *permitModel) expire(now int64) {
	maps.DeleteFunc(m.entries, func(id string, e permitEntry) bool {
		if e.ends > now {
			return false
		}
		m.ended[id] = e
		return true
	})
}

// revive brings back what had ended before the clock was set back. The server
// may have removed it since then.
func (m *permitModel) revive(stored map[string]int64, now int64) {
	for id, e := range m.ended {
		_, again := m.entries[id]
		if at, ok := stored[e.kind+":"+id]; ok && !again && at == e.ends && at > now {
			m.entries[id] = e
		}
	}
}

// isClose reports whether something ends about then.
func (m *permitModel) isClose(then int64) bool {
	for _, all := range []map[string]permitEntry{m.entries, m.ended} {
		for _, e := range all {
			for _, at := range []int64{e.ends, e.kept} {
				if time.Duration(at-then).Abs()*time.Microsecond < machineGap {
					return true
				}
			}
		}
	}
	return false
}

// permitSnapshot is what the server has.
type permitSnapshot struct {
	now     int64
	entries map[string]int64
	queue   []string // without waiters of dead clients
	waiting int      // with them
	tickets map[string]int64
	left    int64
}

const permitSnapshotScript = `
local t = redis.call('TIME')
return {
  t[1] * 1000000 + t[2], redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', '(inf', 'WITHSCORES'),
  redis.call('ZRANGE', KEYS[2], 0, -1), redis.call('ZRANGE', KEYS[2], 0, -1, 'WITHSCORES'),
  redis.call('PTTL', KEYS[1])}`

func (m *permitMachine) snapshot() (s permitSnapshot) {
	key := machineKey(m.key())
	parts, err := redis.Values(m.conn.Do("EVAL", permitSnapshotScript, 2, key, key+":q"))
	require.NoError(m, err)
	s.entries, err = redis.Int64Map(parts[1], nil)
	require.NoError(m, err)
	s.tickets, err = redis.Int64Map(parts[3], nil)
	require.NoError(m, err)
	s.queue, _ = redis.Strings(parts[2], nil)
	s.waiting = len(s.queue)
	s.queue = slices.DeleteFunc(s.queue, func(name string) bool { return m.dead[name[:strings.IndexByte(name, ':')]] })
	s.now, _ = redis.Int64(parts[0], nil)
	s.left, _ = redis.Int64(parts[4], nil)
	maps.DeleteFunc(s.entries, func(name string, at int64) bool { return name[0] != '#' && at <= s.now })
	return s
}

// live counts the permits that are taken, reserved ones and kept ones included.
func (s *permitSnapshot) live() (n int) {
	for name := range s.entries {
		if !strings.HasPrefix(name, "#") {
			n++
		}
	}
	return n
}

// holdOf returns the id of the hold that a waiter gets.
func holdOf(name string) string { return strings.Join(strings.Split(name, ":")[:2], ":") }

// compare returns how the server differs, or notes the times of new entries.
func (m *permitModel) compare(s permitSnapshot, start int64) string {
	seen := maps.Clone(m.entries)
	for id, e := range m.entries {
		at, ok := s.entries[e.kind+":"+id]
		if !ok {
			return fmt.Sprintf("no %s:%s: the server has %v, the model %v", e.kind, id, s, m.entries)
		}
		kept := -s.entries["#"+id]
		if e.recent && e.kept == 0 {
			e.kept = kept
			if !isAfter(kept, e.keep, start, s.now) {
				return fmt.Sprintf("the minimum hold of %s ends at %d: %v", id, kept, s)
			}
		}
		if e.recent && isAfter(at, e.length, start, s.now) {
			e.ends = at
		}
		if e.isExtended(at, start, s.now) {
			e.ends = at
		} else if e.extended > 0 && !e.maybe && e.ends < start+e.extended.Microseconds() {
			return fmt.Sprintf("%s ends at %d, and was extended by %v: %v", id, at, e.extended, s)
		}
		if at != e.ends || (e.kind == "r" && kept != e.kept) || s.left*1000 < at-s.now {
			return fmt.Sprintf("%s:%s ends at another time than %v: %v", e.kind, id, e, s)
		}
		seen[id] = e
	}
	var queue []string
	for _, w := range m.queue {
		queue = append(queue, w.id)
	}
	var stored []string
	for _, name := range s.queue {
		stored = append(stored, holdOf(name))
	}
	if s.live() != len(m.entries) || !slices.Equal(queue, stored) || (len(m.entries) == 0) != (s.left == -2) {
		return fmt.Sprintf("the server has %v, the model %v and waiters %v", s, m.entries, queue)
	}
	m.entries = seen
	return ""
}

// isExtended reports whether an entry ends later now, as its call has asked.
func (e permitEntry) isExtended(at, first, last int64) bool {
	return e.extended > 0 && at > e.ends && isAfter(at, e.extended, first, last)
}

// isAfter reports whether at is so long after a time between the two.
func isAfter(at int64, d time.Duration, first, last int64) bool {
	at -= d.Microseconds()
	return first <= at && at <= last
}
