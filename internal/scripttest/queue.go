package scripttest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/script"
)

// Tests of the queue's scripts, on a real server.

// Queue runs scripts on one lock with its queue. After each script, every key
// must have an expiry.
type Queue struct {
	*Bench
	Less redis.Conn // if not nil, runs the scripts with fewer permissions
}

// NewQueue returns a bench for the queue's scripts.
func NewQueue(t testing.TB, s *redistest.Server) *Queue {
	b := &Queue{Bench: NewBench(t, s)}
	b.Key = strings.NewReplacer("{", "", "}", "").Replace(t.Name()) + ":{k}"
	b.Do("DEL", b.Key, b.QueueKey(), b.BeatsKey())
	return b
}

// QueueKey returns the key of the queue.
func (b *Queue) QueueKey() string { return b.Key + ":q" }

// BeatsKey returns the key of the heartbeats.
func (b *Queue) BeatsKey() string { return b.Key + ":b" }

func (b *Queue) channel(client string) string {
	return strings.TrimSuffix(b.Key, "{k}") + client
}

// Send runs a script on the keys of the lock.
func (b *Queue) Send(s script.Call) (any, error) {
	b.Helper()
	conn := b.Conn
	if b.Less != nil {
		conn = b.Less
	}
	s.Key = b.Key
	r := s.BySource()
	reply, err := conn.Do(r.Cmd, r.Args...)
	for _, key := range []string{b.Key, b.QueueKey(), b.BeatsKey()} {
		require.NotEqual(b, int64(-1), b.Do("PTTL", key), "%s would stay for ever", key)
	}
	return reply, err
}

// Ask returns a script's reply as text.
func (b *Queue) Ask(s script.Call) []string {
	b.Helper()
	reply, err := b.Send(s)
	require.NoError(b, err)
	if code, ok := reply.(int64); ok {
		return []string{fmt.Sprint(code)}
	}
	values, err := redis.Values(reply, nil)
	require.NoError(b, err)
	var all []string
	for _, value := range values {
		if text, ok := value.([]byte); ok {
			value = string(text)
		}
		all = append(all, fmt.Sprint(value))
	}
	return all
}

// Code returns the first part of a reply.
func (b *Queue) Code(s script.Call) string {
	b.Helper()
	return b.Ask(s)[0]
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
		return strings.TrimSpace(fmt.Sprint(text, " ", content["hold"], " ", content["seq"], " ", content["info"], " ", content["mode"]))
	}
	return ""
}

// Waits returns the members of the queue, first to last.
func (b *Queue) Waits() []string {
	b.Helper()
	all, err := redis.Strings(b.Do("ZRANGE", b.QueueKey(), 0, -1), nil)
	require.NoError(b, err)
	return all
}

// Field returns one field of the heartbeats, or "".
func (b *Queue) Field(name string) string {
	b.Helper()
	value, _ := b.Do("HGET", b.BeatsKey(), name).([]byte)
	return string(value)
}

// Now returns the time by the server's clock, in us.
func (b *Queue) Now() int64 {
	b.Helper()
	t, err := redis.Int64s(b.Do("TIME"), nil)
	require.NoError(b, err)
	return t[0]*1_000_000 + t[1]
}

// Beat is a client's heartbeat: its age in queue time, and whether the server
// saw the client's subscription then.
type Beat struct {
	Age     time.Duration
	Counted int
}

// Now is the queue time that Show sets. It stands still, because the last
// heartbeat of any client is ahead of the clock.
const Now = 1000 * time.Second

// Show sets the heartbeats of clients.
func (b *Queue) Show(beats map[string]Beat) {
	b.Helper()
	b.Do("HSET", b.BeatsKey(), "a", fmt.Sprintf("%d:%d:%d", b.Now()+3600_000_000, Now.Microseconds(), ScriptPeriod.Microseconds()))
	for client, shown := range beats {
		b.Do("HSET", b.BeatsKey(), client, fmt.Sprintf("%d:%d:%d", (Now-shown.Age).Microseconds(), ScriptPeriod.Microseconds(), shown.Counted))
	}
	b.Do("PEXPIRE", b.BeatsKey(), 60_000)
}

// Until repeats done until it returns true, for a busy machine. It fails the
// test after 5 s.
func (b *Queue) Until(done func() bool, what string) {
	b.Helper()
	for deadline := time.Now().Add(5 * time.Second); !done(); {
		require.True(b, time.Now().Before(deadline), what)
	}
}

// Line puts members into the queue in this order. The first has waited for the
// duration ago.
func (b *Queue) Line(ago time.Duration, members ...Wait) {
	b.Helper()
	now := b.Now()
	for i, member := range members {
		b.Do("ZADD", b.QueueKey(), now-ago.Microseconds()+int64(i), string(member))
	}
	b.Do("PEXPIRE", b.QueueKey(), 60_000)
}

// StaleWaits returns n waits of a client that no longer runs.
func StaleWaits(n int) (all []Wait) {
	for i := range n {
		all = append(all, WaitNamed("gone", i+1, "pf"))
	}
	return all
}

// Listener is the subscription of a client.
type Listener struct {
	b       *Queue
	conn    redis.PubSubConn
	channel string
}

// Listen subscribes as a client.
func (b *Queue) Listen(s *redistest.Server, client string) *Listener {
	b.Helper()
	l := &Listener{b, redis.PubSubConn{Conn: s.Dial(b)}, b.channel(client)}
	b.Cleanup(func() { _ = l.conn.Close() })
	require.NoError(b, l.conn.Subscribe(l.channel))
	require.IsType(b, redis.Subscription{}, l.conn.Receive())
	return l
}

// Heard returns the messages since the last call.
func (l *Listener) Heard() (all []string) {
	l.b.Helper()
	l.b.Do("PUBLISH", l.channel, "end")
	for {
		m, ok := l.conn.Receive().(redis.Message)
		require.True(l.b, ok, "the subscription broke")
		if string(m.Data) == "end" {
			return all
		}
		all = append(all, string(m.Data))
	}
}
