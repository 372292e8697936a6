package wire

import (
	"context"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/goroutines"
	"github.com/relock-go/relock/internal/redis/driver"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

// A connection does not keep the memory of a large answer.
func TestLargeAnswersAreNotKept(t *testing.T) {
	t.Parallel()
	d, _ := newDialerBehind(t, redistest.Start(t), "")
	on, err := d.Dial(t.Context())
	require.NoError(t, err)
	defer on.Close() //nolint:errcheck // nothing is pending
	for range 2 {
		for _, size := range []int{10, 1 << 20} {
			text, err := redis.String(on.Do("ECHO", strings.Repeat("x", size)))
			require.NoError(t, err)
			require.Len(t, text, size)
		}
		require.LessOrEqual(t, cap(on.in), MaxKept)
	}
}

// slowConn is a socket whose caller leaves when it has sent a part of a
// request, before it waits for room for the rest.
type slowConn struct {
	net.Conn
	once  sync.Once
	leave func()
	left  chan struct{} // has a value when the wait was ended
}

func (c *slowConn) leaves() { c.once.Do(func() { c.leave(); <-c.left }) }

func (c *slowConn) SetWriteDeadline(t time.Time) error {
	c.leaves()
	return c.Conn.SetWriteDeadline(t)
}

func (c *slowConn) Write(p []byte) (int, error) {
	c.leaves()
	return c.Conn.Write(p)
}

func (c *slowConn) SetDeadline(t time.Time) error {
	err := c.Conn.SetDeadline(t)
	if t.Before(time.Now()) {
		c.left <- struct{}{}
	}
	return err
}

// A caller that leaves while a write waits for room ends that wait, whenever it
// leaves.
func TestLeavingAWrite(t *testing.T) {
	t.Parallel()
	l := redistest.Listen(t)
	defer l.Close() //nolint:errcheck // nothing is pending
	plain, err := net.Dial(l.Addr().Network(), l.Addr().String())
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	slow := &slowConn{Conn: plain, leave: cancel, left: make(chan struct{}, 1)}
	s, err := NewSockets(new(goroutines.Group)).add(plain)
	require.NoError(t, err)
	s.Conn = slow
	on := NewConn(s, s, true, 0)
	start := time.Now()
	// the buffers have no room for it while nobody reads
	r := driver.Request{Cmd: "ECHO", Args: []any{strings.Repeat("x", 6<<20)}}
	_, err = on.Call(ctx, testkit.Patience, &r)
	require.Error(t, err)
	require.Less(t, time.Since(start), testkit.Patience/2)
	require.Error(t, on.Err(), "a part of the request was written")
}
