package driver

import (
	"context"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/testkit"
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
			require.EqualValues(t, c.whole, a.whole.Load(), "%q, %d bytes at a time", c.text, size)
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

// A server that says more than it was asked as it is greeted is not used.
func TestGreetingWithTwoAnswers(t *testing.T) {
	t.Parallel()
	s := testkit.ServeText(t, "+OK\r\n+OK\r\n", 1)
	for database := range 2 {
		d := newTestPool(t, s, withPassword("pw"), withDatabase(database))
		require.ErrorIs(t, d.Call(t.Context(), Limits{}, echo("x")).Err, errUnasked)
	}
}

// What comes after the answer to the log-in is seen before the connection is
// used.
func TestGreetingIsLookedAt(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, "--requirepass", "pw")
	proxy := faults.Start(t, s.Network, s.Address)
	d := newTestPool(t, &redistest.Server{Network: proxy.Network, Address: proxy.Address}, withPassword("pw"), withDatabase(1))
	opened, err := d.dialer.dial(t.Context())
	require.NoError(t, err)
	defer opened.Close() //nolint:errcheck // the server is not asked anything
	require.NoError(t, opened.(*conn).greeted())
	proxy.Say("+OK\r\n")
	testkit.Eventually(t, testkit.Patience, func() bool { return opened.(*conn).greeted() != nil }, "an answer that nobody asked for")
	require.ErrorIs(t, opened.(*conn).greeted(), errUnasked)
}

// A dial that ends just as an answer comes reads no state that the reader
// writes: redigo leaves a goroutine behind, which reads until it sees the end.
// Only the race detector can tell.
func TestDialEndsAsItsAnswerComes(t *testing.T) {
	t.Parallel()
	const delay = 2 * time.Millisecond
	s := redistest.Start(t)
	proxy := faults.Start(t, s.Network, s.Address)
	proxy.On(faults.Command("SELECT"), faults.Every, faults.Delay(delay))
	d := newTestPool(t, &redistest.Server{Network: proxy.Network, Address: proxy.Address}, withDatabase(1))
	for range 300 {
		ctx, cancel := context.WithTimeout(t.Context(), delay+rand.N(delay))
		if opened, err := d.dialer.dial(ctx); err == nil {
			_ = opened.Close() // nothing was asked of it
		}
		cancel()
	}
}

// Of answers that come together, one more than there were requests, none is
// believed.
func TestBatchWithAnAnswerTooMany(t *testing.T) {
	t.Parallel()
	s := testkit.ServeText(t, ":1\r\n:1\r\n:0\r\n", 2)
	link := linkOf(t, newTestPool(t, s))
	for _, o := range link.Pipeline(BatchLimit{Own: testkit.Patience, Borrowed: testkit.Patience}, []Request{echo("x"), echo("y")}) {
		require.ErrorIs(t, o.Err, errUnasked)
		require.True(t, o.Unanswered())
	}
}

// Nor is what was taken in before it came.
func TestBatchWithALaterAnswerTooMany(t *testing.T) {
	t.Parallel()
	link := linkOf(t, newTestPool(t, redistest.Start(t)))
	a := &answers{Conn: textConn{text: io.MultiReader(strings.NewReader(":1\r\n"), strings.NewReader(":1\r\n:0\r\n"))}}
	link.conn = &conn{Conn: redis.NewConn(a, 0, 0), answers: a}
	for _, o := range link.Pipeline(BatchLimit{Own: testkit.Patience, Borrowed: testkit.Patience}, []Request{echo("x"), echo("y")}) {
		require.ErrorIs(t, o.Err, errUnasked)
		require.True(t, o.Unanswered())
	}
}
