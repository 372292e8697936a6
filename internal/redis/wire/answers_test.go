package wire

import (
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/goroutines"
	"github.com/relock-go/relock/internal/redis/driver"
	"github.com/relock-go/relock/internal/test/faults"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

// Answers are counted whatever they are, and however they come in.
func TestAnswersAreCounted(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		Text    string
		Whole   int
		Between bool
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
		for size := 1; size <= len(c.Text)+1; size++ {
			a := &answers{Conn: testkit.TextConn{Text: strings.NewReader(c.Text)}}
			_, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{a}, make([]byte, size))
			require.NoError(t, err)
			require.EqualValues(t, c.Whole, a.whole.Load(), "%q, %d bytes at a time", c.Text, size)
			require.Equal(t, c.Between, a.between(), "%q, %d bytes at a time", c.Text, size)
		}
	}
}

// A connection that the server refuses is not lent again: the server closes it
// a moment later, under the next request.
func TestRefusedConnectionIsClosed(t *testing.T) {
	t.Parallel()
	for line, refused := range map[string]bool{
		"-ERR max number of clients reached\r\n": true, "-DENIED Redis is running in protected mode\r\n": true,
		"-ERR no\r\n": false,
	} {
		c := NewConn(testkit.TextConn{Text: strings.NewReader(line)}, nil, false, 0)
		_, err := c.ReceiveWithTimeout(0)
		require.True(t, driver.IsAnswer(err), line)
		require.Equal(t, refused, c.Err() != nil, line)
	}
}

// What comes after the answer to the log-in is seen before the connection is
// used.
func TestGreetingIsLookedAt(t *testing.T) {
	t.Parallel()
	d, proxy := newDialerBehind(t, redistest.Start(t, "--requirepass", "pw"), "pw")
	opened, err := d.Dial(t.Context())
	require.NoError(t, err)
	defer opened.Close() //nolint:errcheck // the server is not asked anything
	require.NoError(t, opened.checkGreeting())
	proxy.Say("+OK\r\n")
	testkit.Eventually(t, testkit.Patience, func() bool { return opened.checkGreeting() != nil },
		"an answer that nobody asked for")
	require.ErrorIs(t, opened.checkGreeting(), ErrUnasked)
}

// newDialerBehind returns a dialer for a database of a server, through a proxy.
func newDialerBehind(t testing.TB, s *redistest.Server, password string) (*Dialer, *faults.Proxy) {
	t.Helper()
	p := faults.Start(t, s.Network, s.Address)
	return NewDialer(&driver.Config{
		Network: p.Network, Address: p.Address, Password: &password, Database: 1,
		DialTimeout: testkit.Patience, CommandTimeout: testkit.Patience,
	}, NewSockets(new(goroutines.Group))), p
}
