package relock

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

// The scripts of the queue by themselves, on a real server.

// queueScripts runs scripts on one lock with its queue. After each script none of the keys may be without an expiry.
type queueScripts struct {
	*scriptBench
	less redis.Conn // runs the scripts, with fewer permissions, when it is there
}

func newQueueScripts(t testing.TB, s *redistest.Server) *queueScripts {
	b := &queueScripts{scriptBench: newScriptBench(t, s)}
	b.key = strings.NewReplacer("{", "", "}", "").Replace(t.Name()) + ":{k}"
	b.do("DEL", b.key, b.queue(), b.beats())
	return b
}

func (b *queueScripts) queue() string { return b.key + ":q" }
func (b *queueScripts) beats() string { return b.key + ":b" }
func (b *queueScripts) channel(client string) string {
	return strings.TrimSuffix(b.key, "{k}") + client
}

func (b *queueScripts) send(s script.Call) (any, error) {
	b.Helper()
	conn := b.conn
	if b.less != nil {
		conn = b.less
	}
	s.Key = b.key
	r := s.BySource()
	reply, err := conn.Do(r.Cmd, r.Args...)
	for _, key := range []string{b.key, b.queue(), b.beats()} {
		require.NotEqual(b, int64(-1), b.do("PTTL", key), "%s would stay for ever", key)
	}
	return reply, err
}

// ask returns what a script answers, as text.
func (b *queueScripts) ask(s script.Call) []string {
	b.Helper()
	reply, err := b.send(s)
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

// code is the first part of an answer.
func (b *queueScripts) code(s script.Call) string {
	b.Helper()
	return b.ask(s)[0]
}

// lock is what the lock's key holds, "" when it is free.
func (b *queueScripts) lock() string {
	b.Helper()
	switch content := b.state().content.(type) {
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

// waits are the members of the queue, first to last.
func (b *queueScripts) waits() []string {
	b.Helper()
	all, err := redis.Strings(b.do("ZRANGE", b.queue(), 0, -1), nil)
	require.NoError(b, err)
	return all
}

// field is one of the beats, or "".
func (b *queueScripts) field(name string) string {
	b.Helper()
	value, _ := b.do("HGET", b.beats(), name).([]byte)
	return string(value)
}

// now is what the server's clock shows, in us.
func (b *queueScripts) now() int64 {
	b.Helper()
	t, err := redis.Int64s(b.do("TIME"), nil)
	require.NoError(b, err)
	return t[0]*1_000_000 + t[1]
}

// beat is what a client has shown: how long ago in queue time, and whether the server saw its subscription then.
type shownBeat struct {
	age     time.Duration
	counted int
}

// queueNow is the queue time that show sets. It stands still, as the last beat of anyone is ahead of the clock.
const queueNow = 1000 * time.Second

func (b *queueScripts) show(beats map[string]shownBeat) {
	b.Helper()
	b.do("HSET", b.beats(), "a", fmt.Sprintf("%d:%d:%d", b.now()+3600_000_000, queueNow.Microseconds(), scriptPeriod.Microseconds()))
	for client, shown := range beats {
		b.do("HSET", b.beats(), client, fmt.Sprintf("%d:%d:%d", (queueNow-shown.age).Microseconds(), scriptPeriod.Microseconds(), shown.counted))
	}
	b.do("PEXPIRE", b.beats(), 60_000)
}

// until repeats what a busy machine may be too slow for.
func (b *queueScripts) until(done func() bool, what string) {
	b.Helper()
	for deadline := time.Now().Add(5 * time.Second); !done(); {
		require.True(b, time.Now().Before(deadline), what)
	}
}

// line puts members into the queue, in this order, the first of which came so long ago.
func (b *queueScripts) line(ago time.Duration, members ...scriptWait) {
	b.Helper()
	now := b.now()
	for i, member := range members {
		b.do("ZADD", b.queue(), now-ago.Microseconds()+int64(i), string(member))
	}
	b.do("PEXPIRE", b.queue(), 60_000)
}

// stale are so many waits of a client that is gone.
func staleWaits(n int) (all []scriptWait) {
	for i := range n {
		all = append(all, waitNamed("gone", i+1, "pf"))
	}
	return all
}

// listener is the subscription of a client.
type listener struct {
	b       *queueScripts
	conn    redis.PubSubConn
	channel string
}

func (b *queueScripts) listen(s *redistest.Server, client string) *listener {
	b.Helper()
	l := &listener{b, redis.PubSubConn{Conn: s.Dial(b)}, b.channel(client)}
	b.Cleanup(func() { _ = l.conn.Close() })
	require.NoError(b, l.conn.Subscribe(l.channel))
	require.IsType(b, redis.Subscription{}, l.conn.Receive())
	return l
}

// heard are the messages since the last call.
func (l *listener) heard() (all []string) {
	l.b.Helper()
	l.b.do("PUBLISH", l.channel, "end")
	for {
		m, ok := l.conn.Receive().(redis.Message)
		require.True(l.b, ok, "the subscription broke")
		if string(m.Data) == "end" {
			return all
		}
		all = append(all, string(m.Data))
	}
}
