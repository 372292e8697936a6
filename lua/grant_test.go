package lua_test

import (
	"net"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

// nonced returns the name of a wait with a nonce.
func nonced(client string, n int, letters string) Wait {
	return WaitNamed(client, n, letters) + ":0123456789abcdef"
}

// A wait with a nonce is never only woken: its message is a grant. An empty one
// shows before whether its client is there. Those of clients that have gone are
// passed over, and leave no reservation.
func TestHandOffToANonce(t *testing.T) {
	now := Heartbeat{Age: 0, Counted: 1}
	for _, letters := range []string{"pu", "pf"} {
		first, next, gone := nonced("c1", 1, letters), nonced("c1", 2, letters), nonced("c2", 1, "pu")
		for name, tt := range map[string]struct{ line, left []Wait }{
			"first":       {[]Wait{first, next}, []Wait{next}},
			"behind gone": {[]Wait{gone, nonced("c2", 2, "pu"), first, next}, []Wait{next}},
			"behind more": {append(StaleWaits(3, "pu"), gone, first), nil},
		} {
			t.Run(letters+"/"+name, func(t *testing.T) {
				holder := WaitNamed("c9", 1, "pf")
				b := NewHeld(t, server, holder)
				l := b.Listen("c1")
				b.Show(map[string]Heartbeat{"c1": now, "c2": now})
				b.Line(time.Millisecond, tt.line...)
				b.RequireDone(holder.Release())
				b.RequireHandedTo(first, tt.left)
				require.Equal(t, []string{"", string(first) + " " + b.Key}, l.Heard())
				require.Equal(t, "1", b.Code(first.Claim()))
			})
		}
		t.Run(letters+"/nobody lives", func(t *testing.T) {
			holder := WaitNamed("c9", 1, "pf")
			b := NewHeld(t, server, holder)
			b.Show(map[string]Heartbeat{"c2": now})
			b.Line(time.Millisecond, gone)
			b.RequireDone(holder.Release())
			require.Empty(t, b.Lock())
			require.Empty(t, b.Waits())
		})
	}
}

// What may fail in a hand-off comes before the message. After a failure the
// lock is freed: a message would be a grant of a lock that others can take.
func TestHandOffThatFailsSendsNoGrant(t *testing.T) {
	first := nonced("c1", 1, "pu")
	for _, denied := range []string{"-zremrangebyrank", "-set", "-zrange", "-time"} {
		t.Run(denied, func(t *testing.T) {
			holder := WaitNamed("c9", 1, "pf")
			b := NewHeld(t, server, holder)
			l := b.Listen("c1")
			b.Queued(first)
			b.Deny(denied)
			require.Equal(t, "1", b.Code(holder.Release()))
			require.Empty(t, b.Lock())
			for _, text := range l.Heard() {
				require.Empty(t, text)
			}
		})
	}
}

// The scripts of the queue take a name with a nonce as any other.
func TestScriptsWithANonce(t *testing.T) {
	w := nonced("c1", 1, "pu")
	b := NewHeld(t, server, WaitNamed("c9", 1, "pu"))
	b.Live("c1")
	require.Equal(t, "0", b.Code(w.EnqueueAgain("", "")))
	require.Equal(t, []string{string(w)}, b.Waits())
	b.RequireDone(w.Cancel(0))
	require.Empty(t, b.Waits())
}

// A client may hear what its server does not count: it listens at the former
// master, which is a replica now. So its waiter is passed over without a grant.
func TestGrantThatNobodyIsSeenToReceive(t *testing.T) {
	t.Parallel()
	master, replica := redistest.StartTCP(t), redistest.StartTCP(t)
	host, port, err := net.SplitHostPort(master.Address)
	require.NoError(t, err)
	replica.Do(t, "REPLICAOF", host, port)
	testkit.Eventually(t, testkit.Patience, func() bool {
		role, err := redis.Values(replica.Try(t, "ROLE"))
		return err == nil && len(role) > 3 && string(role[3].([]byte)) == "connected"
	}, "the replica follows")
	gone, next := nonced("c1", 1, "pu"), nonced("c2", 1, "pu")
	holder := WaitNamed("c9", 1, "pf")
	b := NewHeld(t, master, holder)
	near, far := b.Listen("c2"), b.ListenAt(replica, "c1")
	b.Show(map[string]Heartbeat{"c1": {Age: 0, Counted: 1}, "c2": {Age: 0, Counted: 1}})
	b.Line(time.Millisecond, gone, next)
	b.RequireDone(holder.Release())
	b.RequireHandedTo(next, nil)
	require.Equal(t, []string{"", string(next) + " " + b.Key}, near.Heard())
	for _, text := range far.Heard() {
		require.Empty(t, text)
	}
}

// A client of a Cluster is there if it listens to the channel of the lock.
func TestHandOffToANonceOfACluster(t *testing.T) {
	first, next := nonced(sharded, 1, "pu"), nonced("c2", 1, "pu")
	prepare := func(t *testing.T) (b *Queue, release func()) {
		holder := WaitNamed("c9", 1, "pf")
		b = NewHeld(t, server, holder)
		b.Listen("c2")
		b.Show(map[string]Heartbeat{sharded: {Age: 0, Counted: 1}, "c2": {Age: 0, Counted: 1}})
		b.Line(time.Millisecond, first, next)
		return b, func() { b.RequireDone(holder.Release()) }
	}
	t.Run("gone", func(t *testing.T) {
		b, release := prepare(t)
		release()
		b.RequireHandedTo(next, nil)
	})
	t.Run("there", func(t *testing.T) {
		b, release := prepare(t)
		l := b.ListenSharded(b.Key, sharded)
		release()
		b.RequireHandedTo(first, []Wait{next})
		require.Equal(t, []string{"", string(first) + " " + b.Key}, l.Heard())
	})
}

// An unfair waiter without a nonce, whose client has gone, is passed over after
// a short wait too.
func TestHandOffPassesOverAShortWait(t *testing.T) {
	gone, next := WaitNamed("c2", 1, "ru"), WaitNamed("c1", 1, "rf")
	holder := WaitNamed("c9", 1, "pf")
	b := NewHeld(t, server, holder)
	b.Listen("c1")
	b.Show(map[string]Heartbeat{"c1": {Age: 0, Counted: 1}, "c2": {Age: 0, Counted: 1}})
	b.Line(0, gone, next)
	b.RequireDone(holder.Release())
	b.RequireHandedTo(next, nil)
}

// While a Cluster moves the slot, a reservation of a reentrant lock is kept: a
// script could delete it there, and make no hold.
func TestClaimOfAReentrantLockWhileTheSlotMoves(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, 2, 0)
	const key = "moves:{k}"
	from := c.MasterOf(t, key)
	to := c.Servers[0]
	if from == to {
		to = c.Servers[1]
	}
	w, other := WaitNamed(sharded, 1, "ru"), WaitNamed("c2", 1, "ru")
	b := NewQueue(t, from)
	b.Queued(other)
	b.Store(w.Reserved())
	require.Equal(t, "1", b.Code(w.Claim()))
	b.RequireDone(w.Cancel(1))
	b.Queued(other)
	b.Store(w.Reserved())
	move := c.BeginMove(t, c.SlotOf(t, b.Key), to)
	claim := w.Claim().Script.BySource([]string{b.Key, b.QueueKey(), b.HeartbeatsKey()}, w.Claim().Args)
	_, err := b.Conn.Do(claim.Cmd, claim.Args...)
	require.ErrorContains(t, err, "TRYAGAIN relock")
	require.Contains(t, move.Left(t, 10), b.Key)
	move.Finish(t)
}
