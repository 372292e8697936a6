package proof

import (
	"context"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
)

// stored is what the server has under one name.
type stored struct {
	before, after time.Time // of the look at it
	fields        map[string]string
	left          int64 // PTTL
}

// reservedFor returns the reservation of a lock.
const reservedFor = `
if redis.call('TYPE', KEYS[1]).ok ~= 'string' then
  return 0
end
return #(string.match(redis.call('GET', KEYS[1]), '^relock/1|w|.*') or '')`

// settleReservation waits while the lock is reserved. A reservation for a
// cancelled waiter lasts until its cancel, and one for a crashed client until
// it expires.
func (m *machine) settleReservation(t *machineT, lock string) {
	for end := time.Now().Add(machinePatience); m.do(t, "EVAL",
		reservedFor, 1, machineKey(lock)) != int64(0); time.Sleep(time.Millisecond) {
		require.True(t, time.Now().Before(end), "%s stays reserved", lock)
	}
}

// endless finds a key without an expiry.
const endless = `
for _, key in ipairs(redis.call('KEYS', '*')) do
  if redis.call('PTTL', key) == -1 then
    return key
  end
end
return ''`

func (m *machine) stored(t *machineT, lock string) stored {
	m.settleReservation(t, lock)
	s := stored{before: time.Now()}
	key := machineKey(lock)
	require.NoError(t, m.conn.Send("HGETALL", key))
	require.NoError(t, m.conn.Send("PTTL", key))
	require.NoError(t, m.conn.Flush())
	fields, err := redis.StringMap(m.conn.Receive())
	if !m.keys[lock].foreign {
		require.NoError(t, err)
	}
	s.fields = fields
	s.left, err = redis.Int64(m.conn.Receive())
	require.NoError(t, err)
	s.after = time.Now()
	return s
}

// check compares the server and the holds with the model, once waiters have
// been granted free locks.
func (m *machine) check(t *machineT) {
	m.settle(t)
	for _, lock := range machineLocks {
		m.checkKey(t, lock, m.keys[lock])
	}
	for _, g := range m.grants {
		for _, l := range g.levels {
			m.checkLevel(t, l)
		}
	}
	for _, l := range m.past {
		checkOver(t, l)
	}
	require.Empty(t, m.do(t, "EVAL", endless, 0), "without an expiry")
}

func (m *machine) checkKey(t *machineT, lock string, k *modelKey) {
	s := m.stored(t, lock)
	if k.free() {
		require.Empty(t, s.fields, "%s must be free", lock)
		require.Equal(t, int64(-2), s.left, "%s must be free", lock)
		return
	}
	m.checkExpiry(t, lock, k, s)
	if !k.foreign {
		m.checkFields(t, lock, k, s.fields)
		m.checkValidity(t, k.grant, s)
	}
}

func (m *machine) checkExpiry(t *machineT, lock string, k *modelKey, s stored) {
	const rounding = 2 * time.Millisecond
	require.Positive(t, s.left, "%s must have an expiry", lock)
	left, offset := time.Duration(s.left)*time.Millisecond, m.clock.Offset()
	least, most := wall(k.ends.first).Sub(wall(s.after).Add(offset)), wall(k.ends.last).Sub(wall(s.before).Add(offset))
	require.GreaterOrEqual(t, left, least-rounding, "%s ends too early", lock)
	require.LessOrEqual(t, left, most+rounding, "%s ends too late", lock)
}

// wall strips the monotonic reading: the server goes by the wall clock.
func wall(t time.Time) time.Time { return t.Round(0) }

var (
	// a separate UUID, or that of a client's wait
	holdForm = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}(:[1-9][0-9]*)?$`)
	seqForm  = regexp.MustCompile(`^#[1-9][0-9]*$`)
)

// checkFields checks the hash: the owner's depth, the id of the hold, the
// number of the newest change, and the holder's description.
func (m *machine) checkFields(t *machineT, lock string, k *modelKey, fields map[string]string) {
	require.Len(t, fields, 4, "%s: %v", lock, fields)
	g := k.grant
	if g.id == "" {
		m.meet(t, g, fields)
	}
	require.Equal(t, g.id, fields["hold"], "%s: another hold", lock)
	require.Equal(t, strconv.Itoa(k.count), fields[g.field], "%s: depth of %v", lock, g.owner)
	require.Contains(t, fields["info"], "relock/1|r|")
	require.Regexp(t, seqForm, fields["seq"])
	seq, err := strconv.Atoi(fields["seq"][1:])
	require.NoError(t, err)
	if k.count == g.count {
		require.Equal(t, g.seq, seq, "%s: the number of a change without a change", lock)
	} else {
		require.Greater(t, seq, g.seq, "%s: a change without a number", lock)
	}
	g.count, g.seq = k.count, seq
}

// meet takes down how a new grant is called.
func (m *machine) meet(t *machineT, g *modelGrant, fields map[string]string) {
	require.Regexp(t, holdForm, fields["hold"])
	require.False(t, m.ids[fields["hold"]], "the id of an earlier hold")
	m.ids[fields["hold"]] = true
	for field := range fields {
		if strings.HasSuffix(field, ":n:"+g.owner.name) {
			g.field = field
		}
	}
	require.NotEmpty(t, g.field, "no field of %v: %v", g.owner, fields)
	g.id, g.count, g.seq = fields["hold"], 1, 1
	require.Equal(t, "#1", fields["seq"])
	shortest := machineLeases[0]
	g.copies = append(g.copies,
		modelCopy{script: "acquire", lease: shortest, args: []any{g.field, g.id, ms(shortest), "relock/1|r|copy"}})
	for _, lease := range machineLeases {
		g.copies = append(g.copies, modelCopy{script: "renew", lease: lease, args: []any{g.id, ms(lease)}})
	}
}

func ms(d time.Duration) int64 { return d.Milliseconds() }

// checkValidity checks that the key outlasts the holder's validity. The
// server's clock may have moved forward since the request that the validity
// counts from, which is subtracted.
func (m *machine) checkValidity(t *machineT, g *modelGrant, s stored) {
	if g.dead != nil {
		return
	}
	left := time.Duration(s.left+1) * time.Millisecond
	for _, l := range g.levels {
		if l.hold == nil {
			continue
		}
		valid := l.hold.ValidUntil().Sub(s.before)
		require.LessOrEqual(t, valid, left+m.clock.Offset()-g.skew, "%v is valid for longer than the key exists", g.owner)
	}
}

// checkLevel asks a level that is not unlocked whether it is held.
func (m *machine) checkLevel(t *machineT, l *modelLevel) {
	if l.over != nil {
		checkOver(t, l)
		return
	}
	if l.hold == nil {
		return
	}
	require.NoError(t, l.hold.Err())
	require.NoError(t, l.hold.Context().Err())
	until := l.hold.ValidUntil()
	require.False(t, until.Before(l.grant.until.first) || until.After(l.grant.until.last),
		"valid until %v, not between %v and %v", until, l.grant.until.first, l.grant.until.last)
	found, ok := relock.HoldFromContext(l.hold.Context(), l.grant.owner.lock)
	require.True(t, ok && found == l.hold, "the context must carry the hold")
}

// checkOver asks a level that has ended why.
func checkOver(t *machineT, l *modelLevel) {
	if l.hold == nil {
		return
	}
	want := []error{l.over}
	require.Equal(t, want, reasons(l.hold.Err()))
	require.Equal(t, want, reasons(context.Cause(l.hold.Context())))
	require.True(t, l.hold.ValidUntil().IsZero())
}
