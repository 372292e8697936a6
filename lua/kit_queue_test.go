package lua_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

// Queue runs scripts on one lock of any kind, with its queue. After each
// script, every key must have an expiry.
type Queue struct{ *Bench }

// NewQueue returns a bench for the scripts of a lock with a queue.
func NewQueue(t testing.TB, s *redistest.Server) *Queue {
	b := &Queue{NewBench(t, s)}
	b.Key = strings.NewReplacer("{", "", "}", "").Replace(t.Name()) + ":{k}"
	b.Clear()
	return b
}

// NewHeld returns a bench whose lock the waits hold.
func NewHeld(t testing.TB, s *redistest.Server, holders ...Wait) *Queue {
	t.Helper()
	b := NewQueue(t, s)
	for _, w := range holders {
		b.RequireDone(w.Try())
	}
	return b
}

// Clear removes the lock and all that belongs to it.
func (b *Queue) Clear() {
	b.Helper()
	b.Do("DEL", redis.Args{b.CounterKey(), b.Key + script.NoticeSuffix}.AddFlat(b.keys())...)
}

func (b *Queue) keys() []string {
	return []string{b.Key, b.QueueKey(), b.HeartbeatsKey(), b.Key + script.HoldersSuffix}
}

// QueueKey returns the key of the queue.
func (b *Queue) QueueKey() string { return b.Key + script.QueueSuffix }

// CounterKey returns the key of the counter of fencing tokens.
func (b *Queue) CounterKey() string { return b.Key + script.CounterSuffix }

// HeartbeatsKey returns the key of the heartbeats.
func (b *Queue) HeartbeatsKey() string { return b.Key + script.HeartbeatSuffix }

// Store sets the lock's key, for a lease, without a script: to an entry of a
// read/write lock, or to what [Queue.Lock] returns for another one.
func (b *Queue) Store(held string) {
	b.Helper()
	fields := strings.Fields(held)
	switch {
	case held == "":
		return
	case strings.Contains("r:w:v:", held[:2]):
		b.Put("f", Lease, held)
		return
	case fields[0] == "hash":
		owner, count, _ := strings.Cut(fields[1], "=")
		b.Do("HSET", b.Key, owner, count, "hold", fields[2], "seq", fields[3], "info", fields[4])
		if len(fields) > 5 {
			b.Do("HSET", b.Key, "mode", fields[5])
		}
	default:
		b.Do("SET", b.Key, held)
	}
	b.Do("PEXPIRE", b.Key, Lease.Milliseconds())
}

// Send runs a script on the keys of the lock.
func (b *Queue) Send(s script.Call) (any, error) {
	b.Helper()
	reply, err := b.over(b.sender(), s)
	keys := b.keys()
	stored, fault := redis.Strings(b.Do("EVAL", redis.Args{expiriesSource, len(keys)}.AddFlat(keys)...), nil)
	require.NoError(b, fault)
	require.NotContains(b, stored, "-1", "%s: one would stay for ever", keys)
	if stored[len(keys)] == "zset" {
		b.requireWhole()
	}
	return reply, err
}

// expiriesSource returns the times to live of the keys, and the type of the
// first.
const expiriesSource = `
local all = {}
for i, key in ipairs(KEYS) do
  all[i] = tostring(redis.call('PTTL', key))
end
all[#all + 1] = redis.call('TYPE', KEYS[1]).ok
return all`

// Ask returns a script's reply as text.
func (b *Queue) Ask(s script.Call) []string {
	b.Helper()
	reply, err := b.Send(s)
	require.NoError(b, err)
	return texts(reply)
}

// Code returns the first part of a reply.
func (b *Queue) Code(s script.Call) string {
	b.Helper()
	return b.Ask(s)[0]
}

// RequireDone checks that each script answers 1.
func (b *Queue) RequireDone(calls ...script.Call) {
	b.Helper()
	for i, call := range calls {
		require.Equal(b, "1", b.Code(call), "call %d", i+1)
	}
}

// RequireError checks that the server refuses the script with this text.
func (b *Queue) RequireError(s script.Call, text string) {
	b.Helper()
	_, err := b.Send(s)
	var line redis.Error
	require.ErrorAs(b, err, &line)
	require.ErrorContains(b, err, text)
}

// RequireDenied checks that the script is refused for want of a permission.
func (b *Queue) RequireDenied(s script.Call) {
	b.Helper()
	_, err := b.Send(s)
	RequireDenied(b, err)
}

// denied is what servers say, of several versions, if a command of a script
// lacks a permission.
var denied = regexp.MustCompile("^NOPERM |The user executing the script can't|^ERR ACL failure in script: ")

// RequireDenied checks that this is the answer to a script that lacks a
// permission.
func RequireDenied(t testing.TB, err error) {
	t.Helper()
	var line redis.Error
	require.ErrorAs(t, err, &line)
	require.Regexp(t, denied, line.Error())
}

// Lock returns what the lock's key holds, or "" if the lock is free.
func (b *Queue) Lock() string {
	b.Helper()
	switch content := b.State().Content.(type) {
	case string:
		return content
	case map[string]string:
		text := "hash"
		for field, value := range content {
			if strings.Contains(field, ":") {
				text += " " + field + "=" + value
			}
		}
		return strings.TrimSpace(fmt.Sprint(text, " ", content["hold"], " ", content["seq"], " ", content["info"],
			" ", content["mode"]))
	}
	return ""
}

// Entries returns the entries of a read/write lock in alphabetical order. For
// another lock it returns what [Queue.Lock] does, if anything.
func (b *Queue) Entries() []string {
	b.Helper()
	all := []string{}
	if b.Do("TYPE", b.Key) != "zset" {
		if text := b.Lock(); text != "" {
			all = append(all, text)
		}
		return all
	}
	for _, e := range locktest.ReadRW(b, b.Conn, b.Key) {
		all = append(all, e.Kind+":"+e.Name)
	}
	slices.Sort(all)
	return all
}

// Waits returns the members of the queue, first to last.
func (b *Queue) Waits() []string {
	b.Helper()
	all, err := redis.Strings(b.Do("ZRANGE", b.QueueKey(), 0, -1), nil)
	require.NoError(b, err)
	return all
}

// Everything returns all that the server stores for the lock.
func (b *Queue) Everything() string {
	b.Helper()
	var all []string
	for _, key := range b.keys() {
		all = append(all, b.Content(key))
	}
	return fmt.Sprint(all)
}

// All returns what is stored for the lock and its queue.
func (b *Queue) All() QueueState {
	b.Helper()
	waits, err := redis.Strings(b.Do("ZRANGE", b.QueueKey(), 0, -1, "WITHSCORES"), nil)
	require.NoError(b, err)
	fields, err := redis.Strings(b.Do("HKEYS", b.HeartbeatsKey()), nil)
	require.NoError(b, err)
	return QueueState{b.State().Content, waits, fields, b.Field("t")}
}

// QueueState is what is stored for a lock and its queue, without the times of
// the heartbeats.
type QueueState struct {
	Lock   any
	waits  []string
	fields []string
	newest string
}

// RequireTTL checks the lock's time to live.
func (b *Queue) RequireTTL(want time.Duration) {
	b.Helper()
	RequireExpiry(b, want, b.State().TTL)
}

// Require checks the lock's entries, in any order, and the waits in the queue.
func (b *Queue) Require(name string, lock []string, waits ...Wait) {
	b.Helper()
	lock = append([]string{}, lock...)
	slices.Sort(lock)
	require.Equal(b, lock, b.Entries(), name)
	b.RequireWaits(name, waits...)
}

// RequireWaits checks the waits in the queue and their order.
func (b *Queue) RequireWaits(name string, waits ...Wait) {
	b.Helper()
	want := []string{}
	for _, w := range waits {
		want = append(want, string(w))
	}
	require.Equal(b, want, b.Waits(), name)
}

// RequireHandedTo checks that the lock is reserved for the wait, or free for
// Nobody. It also checks the waits that are left.
func (b *Queue) RequireHandedTo(chosen Wait, left []Wait) {
	b.Helper()
	if chosen == Nobody {
		b.Require("free", nil, left...)
		if len(left) == 0 {
			require.Equal(b, int64(0), b.Do("EXISTS", b.HeartbeatsKey()), "nobody waits, and the heartbeats are still there")
		}
		return
	}
	b.Require("reserved", []string{chosen.Reserved()}, left...)
	if chosen.isReadWrite() {
		b.RequireTTL(Claim + locktest.ClockGrain)
	} else {
		b.RequireTTL(Claim)
	}
}

// Step is one script, its reply, and the lock's entries and waits after it.
func Step(name string, s script.Call, answer string, lock []string, waits ...Wait) QueueStep {
	return QueueStep{name, s, answer, lock, waits}
}

// QueueStep is what [Step] returns.
type QueueStep struct {
	name   string
	call   script.Call
	answer string
	lock   []string
	waits  []Wait
}

// Steps runs the steps and checks each.
func (b *Queue) Steps(steps ...QueueStep) {
	b.Helper()
	for _, step := range steps {
		require.Equal(b, step.answer, b.Code(step.call), step.name)
		b.Require(step.name, step.lock, step.waits...)
	}
}

// Until repeats done until it returns true, for a busy machine.
func (b *Queue) Until(done func() bool, what string) {
	b.Helper()
	testkit.Eventually(b, testkit.Patience, done, what)
}
