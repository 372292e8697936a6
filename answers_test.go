package relock

import (
	"context"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/redistest"
)

// Answers are counted whatever they are, and however they come in.
func TestAnswersAreCounted(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text    string
		whole   int
		between bool
	}{
		{"", 0, true},
		{"+OK\r\n", 1, true},
		{"+\r\n", 1, true},
		{"-ERR 5 *3 $4\r\n", 1, true},
		{":-12\r\n:3\r\n", 2, true},
		{"$-1\r\n$0\r\n\r\n$3\r\n$1\r\r\n", 3, true},
		{"$12\r\n+OK\r\n*9\r\n$1\n\r\n+x\r\n", 2, true},
		{"*-1\r\n*0\r\n", 2, true},
		{"*2\r\n:1\r\n:2\r\n", 1, true},
		{"*2\r\n*2\r\n$1\r\nx\r\n*0\r\n:1\r\n", 1, true},
		{"*2\r\n:1\r\n*2\r\n:1\r\n", 0, false},
		{"*1\r\n$10\r\n0123456789\r", 0, false},
		{":1\r\n:1\r", 1, false},
		{"+OK\r\n+", 1, false},
	} {
		for size := 1; size <= len(c.text)+1; size++ {
			a := &answers{Conn: textConn{text: strings.NewReader(c.text)}}
			_, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{a}, make([]byte, size))
			require.NoError(t, err)
			require.Equal(t, c.whole, a.whole, "%q, %d bytes at a time", c.text, size)
			require.Equal(t, c.between, a.between(), "%q, %d bytes at a time", c.text, size)
		}
	}
}

// textConn is a connection that says the text.
type textConn struct {
	net.Conn
	text io.Reader
}

func (c textConn) Read(p []byte) (int, error)    { return c.text.Read(p) }
func (textConn) Write(p []byte) (int, error)     { return len(p), nil }
func (textConn) SetReadDeadline(time.Time) error { return nil }
func (textConn) Close() error                    { return nil }

// An answer that comes twice is never taken for the next command's: neither for a grant of a lock that somebody else has, nor for anything
// else.
func TestDoubledAnswerIsNoGrant(t *testing.T) {
	t.Parallel()
	for name, ctx := range map[string]func(testing.TB) context.Context{"bounded": testing.TB.Context, "unbounded": unbounded} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, ctx := taught(t, redistest.Start(t)), ctx(t)
			proxy := faults.Start(t, s.Network, s.Address)
			c := newTestClient(t, &redistest.Server{Network: proxy.Network, Address: proxy.Address})
			require.NoError(t, NewRedisLock("others", sibling(t, s, c)).Lock(ctx))
			requireTheirs := func() {
				require.ErrorIs(t, NewRedisLock("others", c).TryLock(ctx), ErrLockAcquiredByOthers)
			}
			for _, match := range []faults.Match{faults.Command("SET"), faults.Script(releaseScript.sha), faults.Command("SET")} {
				done := proxy.On(match, 1, faults.DoubleAnswer)
				l := NewRedisLock("free", c)
				require.NoError(t, l.Lock(ctx))
				requireTheirs()
				require.NoError(t, l.Unlock(ctx))
				requireTheirs()
				<-done
			}
			refuses := NewScript("return redis.error_reply('ERR no')")
			s.Do(t, "SCRIPT", "LOAD", refuses.source)
			done := proxy.On(faults.Script(refuses.sha), 1, faults.DoubleAnswer)
			_, err := c.Eval(ctx, refuses, nil)
			require.ErrorContains(t, err, "ERR no")
			<-done
			requireTheirs()
		})
	}
}

// What comes while a connection is idle is seen before it is used again, by callers and by the watchdog. So is its end.
func TestIdleConnectionThatSpeaks(t *testing.T) {
	t.Parallel()
	s := taught(t, redistest.Start(t))
	proxy := faults.Start(t, s.Network, s.Address)
	c := newTestClient(t, &redistest.Server{Network: proxy.Network, Address: proxy.Address})
	other := sibling(t, s, c)
	require.NoError(t, NewRedisLock("others", other).Lock(t.Context()))
	h, err := NewRedisLock("held", c).Acquire(t.Context())
	require.NoError(t, err)
	l := leaseOf(h)
	for range 3 {
		until := h.ValidUntil()
		c.watchdog.add(l.job, time.Now())
		eventually(t, queuePatience, func() bool { return h.ValidUntil().After(until) }, "renewed")
		require.NoError(t, NewRedisLock("mine", c).Do(t.Context(), nothing))
		proxy.Say("+OK\r\n")
		require.ErrorIs(t, NewRedisLock("others", c).TryLock(t.Context()), ErrLockAcquiredByOthers)
	}
	s.Do(t, "DEL", keyOf(c, "held"))
	proxy.Say(strings.Repeat(":1\r\n", 100)) // each of which would be a renewal
	c.watchdog.add(l.job, time.Now())
	require.ErrorIs(t, endedWithin(t, h.Context(), defaultLease/4), ErrLockLost)
	require.ErrorIs(t, h.Unlock(t.Context()), ErrLockLost)
}

// A server that says more than it was asked as it is greeted is not used.
func TestGreetingWithTwoAnswers(t *testing.T) {
	t.Parallel()
	s := serveText(t, "+OK\r\n+OK\r\n", 1)
	for _, opts := range [][]ClientOption{nil, {WithDatabase(1)}} {
		c, err := NewClient(s.Network, s.Address, "pw", opts...)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, c.Close()) })
		require.ErrorIs(t, c.Ping(t.Context()), errUnasked)
	}
}

// What comes after the answer to the log-in is seen before the connection is used.
func TestGreetingIsLookedAt(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, "--requirepass", "pw")
	proxy := faults.Start(t, s.Network, s.Address)
	c, err := NewClient(proxy.Network, proxy.Address, "pw", WithDatabase(1))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	opened, err := c.driver.(*poolDriver).dialer.dial(t.Context())
	require.NoError(t, err)
	defer opened.Close() //nolint:errcheck // the server is not asked anything
	require.NoError(t, opened.(*conn).greeted())
	proxy.Say("+OK\r\n")
	eventually(t, queuePatience, func() bool { return opened.(*conn).greeted() != nil }, "an answer that nobody asked for")
	require.ErrorIs(t, opened.(*conn).greeted(), errUnasked)
}

// Of answers that come together, one more than there were requests, none is believed.
func TestBatchWithAnAnswerTooMany(t *testing.T) {
	t.Parallel()
	s := serveText(t, ":1\r\n:1\r\n:0\r\n", 2)
	c := newTestClient(t, s)
	link := c.driver.link()
	defer link.close()
	for _, o := range link.pipeline(batchLimit{queuePatience, queuePatience}, []request{echo("x"), echo("y")}) {
		require.ErrorIs(t, o.err, errUnasked)
		require.True(t, o.unanswered())
	}
}

// Nor is what was taken in before it came.
func TestBatchWithALaterAnswerTooMany(t *testing.T) {
	t.Parallel()
	link := newTestClient(t, redistest.Start(t)).driver.link().(*poolLink)
	defer link.close()
	a := &answers{Conn: textConn{text: io.MultiReader(strings.NewReader(":1\r\n"), strings.NewReader(":1\r\n:0\r\n"))}}
	link.conn = &conn{Conn: redis.NewConn(a, 0, 0), answers: a}
	for _, o := range link.pipeline(batchLimit{queuePatience, queuePatience}, []request{echo("x"), echo("y")}) {
		require.ErrorIs(t, o.err, errUnasked)
		require.True(t, o.unanswered())
	}
}
