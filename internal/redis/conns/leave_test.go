package conns

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/redis/driver"
	"github.com/relock-go/relock/internal/test/faults"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

// The answer to a call that was left is awaited on a new connection too, before
// the server has said anything on it.
func TestLeavingANewConnection(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	proxy := faults.Start(t, s.Network, s.Address)
	d := newTestPool(t, &redistest.Server{Network: proxy.Network, Address: proxy.Address})
	s.Pause(t)
	ctx, leave := context.WithCancel(t.Context())
	go func() {
		defer leave()
		proxy.Await(faults.Command("ECHO"), 1, testkit.Patience)
	}()
	o := d.Call(ctx, driver.Limits{}, echo("left"))
	s.Resume(t)
	require.ErrorIs(t, o.Err, driver.ErrAbandoned)
	require.True(t, o.Unanswered())
	require.NotNil(t, o.Abandoned)
	testkit.Eventually(t, testkit.Patience, o.Abandoned.Answered, "the answer has come")
	o = d.Call(t.Context(), driver.Limits{}, echo("next"))
	require.NoError(t, o.Err)
	require.Equal(t, []byte("next"), o.Reply)
	require.Equal(t, 1, d.Connections(), "it is used again")
}

// A caller may leave while a part of its answer has come. The connection stays
// whole, though a read of redigo that ends there would close it.
func TestLeavingInTheMiddleOfAnAnswer(t *testing.T) {
	t.Parallel()
	left := make(chan struct{})
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	s := redistest.Serve(t, redistest.Listen(t), func(conn net.Conn) {
		lines := bufio.NewReader(conn)
		request := func() {
			for range 5 { // of ECHO
				_, _ = lines.ReadString('\n')
			}
		}
		request()
		_, _ = fmt.Fprint(conn, "$4\r\nle")
		time.AfterFunc(50*time.Millisecond, leave) // by then it is usually read
		<-left
		_, _ = fmt.Fprint(conn, "ft\r\n")
		request()
		_, _ = fmt.Fprint(conn, "$4\r\nnext\r\n")
		_, _ = io.Copy(io.Discard, conn)
	})
	d := newTestPool(t, s)
	o := d.Call(ctx, driver.Limits{}, echo("left"))
	close(left)
	require.ErrorIs(t, o.Err, driver.ErrAbandoned)
	require.NotNil(t, o.Abandoned)
	testkit.Eventually(t, testkit.Patience, o.Abandoned.Answered, "the answer has come")
	o = d.Call(t.Context(), driver.Limits{}, echo("next"))
	require.NoError(t, o.Err)
	require.Equal(t, []byte("next"), o.Reply)
	require.Equal(t, 1, d.Connections(), "it is used again")
}

// What is no message of a subscription ends it.
func TestWhatIsNoMessage(t *testing.T) {
	t.Parallel()
	for _, reply := range []any{
		nil,
		"OK", int64(1),
		[]any{},
		[]any{[]byte("message"), []byte("c")},
		[]any{int64(1), []byte("c"), []byte("text")},
		[]any{nil, nil, nil},
		[]any{[]byte(""), []byte("c"), []byte("text")},
		[]any{[]byte("pong"), []byte("c"), []byte("text")},
	} {
		f := &feed{}
		require.ErrorIs(t, f.take(driver.OneChannel{}, reply, nil), errBadMessage, "%v", reply)
	}
}
