package lua_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/test/redistest"
)

// giveOf returns the request that gives a plain lock from one hold to another.
func giveOf(from, to string, expiry time.Duration) script.Call {
	return script.Call{Script: script.Transfer, Args: []any{from, to, expiry.Milliseconds()}}
}

// plainReleaseOfEither returns the release of a hold that may have become
// another one.
func plainReleaseOfEither(value, successor string, keep time.Duration) script.Call {
	s := ReleaseOf(value, keep)
	s.Args = append(s.Args, "", successor)
	return s
}

// A plain lock is given to another hold once, however often the request comes.
func TestTransfer(t *testing.T) {
	const plain1, plain2, plain3, lease = Plain1, Plain2, Plain3, Lease
	s := redistest.Shared(t)
	given := AndThen(PlainHeld, giveOf(plain1, plain2, lease))
	kept := lockspec.KeptValue(plain1)
	for name, tt := range map[string]struct {
		state []script.Call
		call  script.Call
		reply int64
		holds any // nil: the lock is free
		left  time.Duration
	}{
		"given":                        {PlainHeld, giveOf(plain1, plain2, LongLease), 1, plain2, LongLease},
		"given for less":               {PlainHeld, giveOf(plain1, plain2, time.Second), 1, plain2, time.Second},
		"by the id alone":              {PlainHeld, giveOf(lockspec.ValueOf("h1", false), plain2, lease), 1, plain2, lease},
		"by the id in the other mode":  {PlainHeld, giveOf(lockspec.ValueOf("h1", true), plain2, lease), 0, plain1, lease},
		"by a part of the id":          {PlainHeld, giveOf(lockspec.ValueOf("h", false), plain2, lease), 0, plain1, lease},
		"again, for longer":            {given, giveOf(plain1, plain2, LongLease), 1, plain2, LongLease},
		"again, for less":              {given, giveOf(plain1, plain2, time.Second), 1, plain2, lease},
		"again, to a third":            {given, giveOf(plain1, plain3, lease), 0, plain2, lease},
		"of another's":                 {PlainTook, giveOf(plain1, plain2, lease), 0, plain3, lease},
		"of a kept one":                {PlainKept, giveOf(plain1, plain2, lease), 0, kept, Keep},
		"of a free one":                {nil, giveOf(plain1, plain2, lease), 0, nil, 0},
		"of another kind":              {HeldOnce, giveOf(plain1, plain2, lease), -1, Given(OwnerUs, Hold1, "info"), lease},
		"released by the old value":    {given, ReleaseOf(plain1, 0), 0, plain2, lease},
		"renewed by the old value":     {given, RenewOf(plain1, LongLease), 0, plain2, lease},
		"either released, the first":   {PlainHeld, plainReleaseOfEither(plain1, plain2, 0), 1, nil, 0},
		"either released, the second":  {given, plainReleaseOfEither(plain1, plain2, 0), 1, nil, 0},
		"either released, neither":     {PlainTook, plainReleaseOfEither(plain1, plain2, 0), 0, plain3, lease},
		"either released, free":        {nil, plainReleaseOfEither(plain1, plain2, 0), 0, nil, 0},
		"either kept, the first":       {PlainHeld, plainReleaseOfEither(plain1, plain2, Keep), 1, kept, Keep},
		"either kept, the second":      {given, plainReleaseOfEither(plain1, plain2, Keep), 1, kept, Keep},
		"either kept, neither":         {PlainTook, plainReleaseOfEither(plain1, plain2, Keep), 0, plain3, lease},
		"either kept, kept":            {PlainKept, plainReleaseOfEither(plain1, plain2, Keep), 2, kept, Keep},
		"either released, it was kept": {PlainKept, plainReleaseOfEither(plain1, plain2, 0), 2, nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			b := NewQueue(t, s)
			b.SetUp(tt.state)
			require.Equal(t, tt.reply, b.Run(tt.call))
			state := b.State()
			require.Equal(t, tt.holds, state.Content)
			if tt.holds != nil {
				RequireExpiry(t, tt.left, state.TTL)
			}
		})
	}
}

// A release of either hold serves the waiters.
func TestReleaseOfEitherHandsOff(t *testing.T) {
	s := redistest.Shared(t)
	b := NewQueue(t, s)
	w := WaitNamed("c1", 1, "pf")
	b.SetUp(AndThen(PlainHeld, giveOf(Plain1, Plain2, Lease)))
	b.Live("c1")
	b.Line(time.Minute, w)
	b.RequireDone(plainReleaseOfEither(Plain1, Plain2, 0))
	b.RequireHandedTo(w, nil)
}

func TestTransferRefuses(t *testing.T) {
	s := redistest.Shared(t)
	for name, args := range map[string][]any{
		"fence without its counter": {"a", "b", 100, 5},
		"no hold":                   {"", "b", 100}, "no next": {"a", "", 100}, "no expiry": {"a", "b", ""},
		"short": {"a", "b", 9}, "text": {"a", "b", "x"}, "long": {"a", "b", strings.Repeat("9", 16)},
	} {
		t.Run(name, func(t *testing.T) {
			b := NewQueue(t, s)
			b.SetUp(PlainHeld)
			b.RequireError(script.Call{Script: script.Transfer, Args: args}, "transfer: bad arguments")
			require.Equal(t, Plain1, b.State().Content)
		})
	}
	for name, rule := range map[string]string{"read": "-get", "expiry": "-pexpire"} {
		t.Run("may not "+name, func(t *testing.T) {
			b := NewQueue(t, s)
			b.SetUp(PlainHeld)
			b.Deny(rule)
			b.RequireDenied(giveOf(Plain1, Plain2, LongLease))
			require.Equal(t, Plain1, b.State().Content)
		})
	}
}

// resumeOf returns the request that resumes a detached hold with its fencing
// token.
func resumeOf(transfer script.Call, fence any) script.Call {
	transfer = Fenced(transfer)
	transfer.Args = append(append([]any(nil), transfer.Args...), fence)
	return transfer
}

// A resumed hold keeps its fencing token, if the counter has given it. Without
// the counter it is at most the server's time. None is drawn.
func TestTransferChecksTheFencingToken(t *testing.T) {
	const hour = int64(time.Hour / time.Microsecond)
	for name, tt := range map[string]struct {
		held     []script.Call
		transfer script.Call
	}{
		"transfer":           {PlainHeld, giveOf(Plain1, Plain2, LongLease)},
		"reentrant_transfer": {HeldOnce, TransferOf(Hold1, Hold2, LongLease)},
	} {
		t.Run(name, func(t *testing.T) {
			b := NewQueue(t, server)
			requireGiven := func(want int64, fence any) {
				t.Helper()
				b.SetUp(tt.held)
				before, counter := b.State(), b.Do("GET", b.CounterKey())
				require.Equal(t, want, b.Run(resumeOf(tt.transfer, fence)), fence)
				require.Equal(t, want == 1, !reflect.DeepEqual(before.Content, b.State().Content), fence)
				require.Equal(t, counter, b.Do("GET", b.CounterKey()), fence)
			}
			b.Do("SET", b.CounterKey(), 1000, "PX", 60_000)
			requireGiven(1, 1)
			requireGiven(1, 1000)
			require.EqualValues(t, 1, b.Run(resumeOf(tt.transfer, 1000)), "a second copy")
			requireGiven(8, 1001)
			requireGiven(8, "9223372036854775807")
			now := b.Now()
			b.Do("DEL", b.CounterKey())
			requireGiven(1, now)
			requireGiven(8, now+hour)
			b.SetUp(nil)
			require.EqualValues(t, 0, b.Run(resumeOf(tt.transfer, now+hour)), "the hold is looked for first")
			for _, fence := range []any{"", "0", "-1", "1.5", "1e3", "x", "007"} {
				b.SetUp(tt.held)
				before := b.State().Content
				b.RequireError(resumeOf(tt.transfer, fence), ": bad arguments")
				require.Equal(t, before, b.State().Content)
			}
		})
	}
}
