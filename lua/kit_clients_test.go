package lua_test

import (
	"fmt"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/test/redistest"
)

// Heartbeat is a client's heartbeat: its age in queue time, and whether the
// server saw the client's subscription then.
type Heartbeat struct {
	Age     time.Duration
	Counted int
}

// Now is the queue time that Show sets. It stands still, because the last
// heartbeat of any client is ahead of the clock.
const Now = 1000 * time.Second

// Show sets the heartbeats of clients.
func (b *Queue) Show(heartbeats map[string]Heartbeat) {
	b.Helper()
	b.Do("HSET", b.HeartbeatsKey(),
		"a", fmt.Sprintf("%d:%d:%d", b.Now()+3600_000_000, Now.Microseconds(), ScriptPeriod.Microseconds()))
	for client, shown := range heartbeats {
		b.Do("HSET", b.HeartbeatsKey(), client,
			fmt.Sprintf("%d:%d:%d", (Now-shown.Age).Microseconds(), ScriptPeriod.Microseconds(), shown.Counted))
	}
	b.Do("PEXPIRE", b.HeartbeatsKey(), 60_000)
}

// Live sets heartbeats of now for clients whose subscription the server does
// not see.
func (b *Queue) Live(clients ...string) {
	b.Helper()
	heartbeats := map[string]Heartbeat{}
	for _, client := range clients {
		heartbeats[client] = Heartbeat{}
	}
	b.Show(heartbeats)
}

// Line puts members into the queue in this order. The first has waited for the
// duration ago.
func (b *Queue) Line(ago time.Duration, members ...Wait) {
	b.Helper()
	if len(members) == 0 {
		return
	}
	all, at := []any{b.QueueKey()}, b.Now()-ago.Microseconds()
	for i, member := range members {
		all = append(all, at+int64(i), string(member))
	}
	b.Do("ZADD", all...)
	b.Do("PEXPIRE", b.QueueKey(), 60_000)
}

// Queued puts waits into the queue, the first of which has waited for a minute.
// Their clients live, except the one of [StaleWaits].
func (b *Queue) Queued(waits ...Wait) {
	b.Helper()
	var clients []string
	for _, w := range waits {
		if w.Client() != gone {
			clients = append(clients, w.Client())
		}
	}
	b.Live(clients...)
	b.Line(time.Minute, waits...)
}

// Field returns one field of the heartbeats, or "".
func (b *Queue) Field(name string) string {
	b.Helper()
	value, _ := b.Do("HGET", b.HeartbeatsKey(), name).([]byte)
	return string(value)
}

// Listener is the subscription of a client.
type Listener struct {
	b       *Bench
	conn    redis.Conn
	publish string
	channel string
}

// Listen subscribes as a client.
func (b *Bench) Listen(client string) *Listener {
	b.Helper()
	return b.ListenAt(b.server, client)
}

// ListenAt is Listen at another server, such as a replica. What is published is
// published at the server of the bench.
func (b *Bench) ListenAt(s *redistest.Server, client string) *Listener {
	b.Helper()
	return b.listen(s, "SUBSCRIBE", "PUBLISH", strings.TrimSuffix(b.Key, "{k}")+client)
}

// ListenSharded subscribes to the sharded channel of a client for a key.
func (b *Bench) ListenSharded(key, client string) *Listener {
	b.Helper()
	return b.listen(b.server, "SSUBSCRIBE", "SPUBLISH", key+":"+client)
}

func (b *Bench) listen(s *redistest.Server, subscribe, publish, channel string) *Listener {
	b.Helper()
	l := &Listener{b, s.Dial(b), publish, channel}
	b.Cleanup(func() { _ = l.conn.Close() })
	_, err := l.conn.Do(subscribe, channel)
	require.NoError(b, err)
	return l
}

// Heard returns the messages since the last call.
func (l *Listener) Heard() (all []string) {
	l.b.Helper()
	l.b.Do(l.publish, l.channel, "end")
	for {
		m, err := redis.Strings(l.conn.Receive())
		require.NoError(l.b, err, "the subscription broke")
		if m[2] == "end" {
			return all
		}
		all = append(all, m[2])
	}
}
