package proof

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// rwStoredHold is one hold that the server has, and that has not ended.
type rwStoredHold struct {
	id, kind, counts, owner string
	until, seq              int64
}

const rwMachineSnapshot = `
local left = redis.call('PTTL', KEYS[1])
local t = redis.call('TIME')
local scores = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', '(inf', 'WITHSCORES')
return {t[1] * 1000000 + t[2], scores, redis.call('HGETALL', KEYS[2]), left}`

// stored is what the server has, by hold.
func (m *rwMachine) stored() (all []rwStoredHold) {
	key := machineKey(rwMachineKey)
	parts, err := redis.Values(m.conn.Do("EVAL", rwMachineSnapshot, 2, key, key+":h"))
	require.NoError(m, err)
	now, _ := redis.Int64(parts[0], nil)
	scores, err := redis.Int64Map(parts[1], nil)
	require.NoError(m, err)
	notes, err := redis.StringMap(parts[2], nil)
	require.NoError(m, err)
	left, _ := redis.Int64(parts[3], nil)
	require.NotEqual(m, int64(-1), left, "it would stay for ever")
	for entry, until := range scores {
		kind, id, _ := strings.Cut(entry, ":")
		if strings.HasPrefix(entry, "#") || until <= now {
			continue
		}
		require.GreaterOrEqual(m, left*1000, until-now, "the lock ends before a hold")
		counts, rest, _ := strings.Cut(notes[id], "|")
		all = append(all, rwStoredHold{id, kind, counts, rest[strings.LastIndexByte(rest, '|')+1:], until, -scores["#"+id]})
	}
	slices.SortFunc(all, func(a, b rwStoredHold) int { return strings.Compare(a.id, b.id) })
	return all
}

// ends omits the numbers of changes, as a refused one has a number too.
func ends(all []rwStoredHold) []rwStoredHold {
	all = slices.Clone(all)
	for i := range all {
		all[i].seq = 0
	}
	return all
}

// check compares everything with the model.
func (m *rwMachine) check(r *rapid.T) {
	m.T = r
	if m.isLate() {
		return
	}
	stored := map[string]rwStoredHold{}
	for _, e := range m.stored() {
		stored[e.id] = e
	}
	writes := 0
	for _, h := range m.all {
		if !h.there {
			continue
		}
		e, ok := stored[h.id]
		require.True(m, ok, "the server does not have the hold of %v: %v", h.owner, stored)
		delete(stored, h.id)
		kind := "r"
		if h.count(true) > 0 {
			kind = "w"
			writes++
		}
		require.Equal(m, kind, e.kind, "%v", h.owner)
		require.Equal(m, strconv.Itoa(h.count(false))+":"+strconv.Itoa(h.count(true)), e.counts, "%v", h.owner)
		until := time.UnixMicro(e.until)
		require.False(m, until.Before(wall(h.ends.first).Add(-2*time.Millisecond)) ||
			until.After(wall(h.ends.last).Add(2*time.Millisecond)),
			"%v ends at %v, not between %v and %v", h.owner, until, h.ends.first, h.ends.last)
	}
	require.Empty(m, stored, "these have no holder")
	require.True(m, writes == 0 || m.there() == 1, "one writes beside another")
	for _, l := range m.levels {
		m.checkLevel(l)
	}
}

func (m *rwMachine) there() (n int) {
	for _, h := range m.all {
		if h.there {
			n++
		}
	}
	return n
}

func (m *rwMachine) checkLevel(l *rwModelLevel) {
	if l.over == nil {
		require.NoError(m, l.handle.Err())
		require.NoError(m, l.handle.Context().Err())
		return
	}
	require.Equal(m, []error{l.over}, reasons(l.handle.Err()))
	require.Equal(m, []error{l.over}, reasons(context.Cause(l.handle.Context())))
}

// finish releases all holds, and checks that no key is left.
func (m *rwMachine) finish() {
	if m.isLate() {
		return
	}
	for _, h := range m.all {
		for len(h.levels) > 0 {
			l := h.levels[len(h.levels)-1]
			m.unlock(l, func() error { return l.handle.Unlock(context.Background()) })
		}
	}
	m.check(m.T)
	m.clock.Advance(m.t, time.Hour)
	require.Empty(m, m.do(m, "KEYS", "*"), "keys are left")
}
