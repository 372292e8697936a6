package relock

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/redistest"
)

// A user's pool gives its limits to the shared connection.
func TestSharedConnectionOfAUserPool(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	pool := &redis.Pool{IdleTimeout: time.Minute, MaxConnLifetime: time.Hour, MaxActive: 1, Dial: func() (redis.Conn, error) { return redis.Dial(s.Network, s.Address) }}
	defer pool.Close() //nolint:errcheck // nothing is in it
	c, err := NewClientPool(pool)
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close()) }()
	p := sharing(c).driver.(*poolDriver).shared
	require.Equal(t, time.Minute, p.idle)
	require.Equal(t, time.Hour, p.age)
	var group sync.WaitGroup
	for n := range 50 {
		group.Go(func() {
			l := NewRedisLock(fmt.Sprint(n), c)
			if err := errors.Join(l.Lock(t.Context()), l.Unlock(t.Context())); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	require.Zero(t, pool.ActiveCount())
}

// serveText runs a server that says the text to each connection after so many requests, and then ends it.
func serveText(t testing.TB, text string, requests int) *redistest.Server {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var group sync.WaitGroup
	group.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			group.Go(func() {
				defer conn.Close() //nolint:errcheck // the end of the test
				for lines, left := bufio.NewReader(conn), requests; left > 0; left-- {
					for range 5 {
						_, _ = lines.ReadString('\n')
					}
				}
				_, _ = fmt.Fprint(conn, text)
				_ = conn.(*net.TCPConn).CloseWrite()
				_, _ = io.Copy(io.Discard, conn) // else what was not read resets the connection
			})
		}
	})
	t.Cleanup(group.Wait)
	t.Cleanup(func() { _ = listener.Close() })
	return &redistest.Server{Network: "tcp", Address: listener.Addr().String()}
}

// What a server says to a connection that it does not take is the error of all calls.
func TestRefusedSharedConnection(t *testing.T) {
	t.Parallel()
	for text, retryable := range map[string]bool{
		"DENIED Redis is running in protected mode":               false,
		"ERR max number of clients reached":                       true,
		"ERR max number of clients + cluster connections reached": true,
	} {
		c := sharing(newTestClient(t, serveText(t, "-"+text+"\r\n", 0)))
		var group sync.WaitGroup
		for range 8 {
			group.Go(func() {
				o := c.driver.send(t.Context(), limits{}, echo("x"))
				if o.err == nil || IsRetryableErr(o.err) != retryable {
					t.Errorf("error %v", o.err)
				}
			})
		}
		group.Wait()
	}
}

// An answer that nobody asked for ends the connection, and is nobody's.
func TestAnswerThatNobodyAskedFor(t *testing.T) {
	t.Parallel()
	c := sharing(newTestClient(t, serveText(t, "$1\r\nx\r\n+more\r\n", 1)))
	o := c.driver.send(t.Context(), limits{}, echo("x"))
	require.True(t, o.err == nil || errors.Is(o.err, errUnasked), "%v", o.err) // as one, or one after the other
	stream := c.driver.(*poolDriver).shared.stream
	<-stream.done
	require.ErrorIs(t, stream.cause, errUnasked)
}
