package redistest

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"
)

// Listen returns a listener on a free port.
func Listen(t testing.TB) net.Listener {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	return listener
}

// Serve runs a server until the test ends. answer is called for each
// connection, on a separate goroutine. The connection is closed when answer
// returns or the test ends.
func Serve(t testing.TB, listener net.Listener, answer func(net.Conn)) *Server {
	ctx, cancel := context.WithCancel(context.Background())
	var group sync.WaitGroup
	group.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			group.Go(func() {
				defer conn.Close() //nolint:errcheck // the end of the connection
				defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
				answer(conn)
			})
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		cancel()
		group.Wait()
	})
	return &Server{Network: "tcp", Address: listener.Addr().String()}
}

const pong = "+PONG\r\n"

// ServeText runs a server that sends the text on each connection after the
// given number of requests. It then ends the connection. A PING before that is
// answered, and does not count.
func ServeText(t testing.TB, text string, requests int) *Server {
	return Serve(t, Listen(t), func(conn net.Conn) {
		from := redis.NewConn(conn, 0, 0) // a request is an array, as a reply may be
		for left := requests; left > 0; left-- {
			if args, _ := redis.Strings(from.Receive()); len(args) > 0 && args[0] == "PING" {
				_, _ = io.WriteString(conn, pong)
				left++
			}
		}
		_, _ = fmt.Fprint(conn, text)
		_ = conn.(*net.TCPConn).CloseWrite()
		_, _ = io.Copy(io.Discard, conn) // unread data would reset the connection
	})
}

// ServeReplies runs a server that speaks Redis's protocol, and gives each
// command the reply that the test chooses. PING gets that of Redis.
func ServeReplies(t testing.TB, reply func(args []string) string) *Server {
	return Serve(t, Listen(t), func(conn net.Conn) {
		requests := redis.NewConn(conn, 0, 0) // see ServeText
		for args, err := redis.Strings(requests.Receive()); err == nil; args, err = redis.Strings(requests.Receive()) {
			if args[0] == "PING" {
				_, _ = io.WriteString(conn, pong)
				continue
			}
			_, _ = io.WriteString(conn, reply(args))
		}
	})
}

// DialProxy returns a dialer of a proxy in memory, for virtual time. The proxy
// has no server, and answers each request with an error line.
func DialProxy(line string) func(context.Context, string, string) (net.Conn, error) {
	return func(context.Context, string, string) (net.Conn, error) {
		client, proxy := net.Pipe()
		go func() { // until the client closes the connection
			defer proxy.Close() //nolint:errcheck // the end of the connection
			for requests := bufio.NewReader(proxy); ; {
				begin, err := requests.ReadString('\n')
				if err != nil {
					return
				}
				if strings.HasPrefix(begin, "*") {
					_, _ = fmt.Fprintf(proxy, "-%s\r\n", line)
				}
			}
		}()
		return client, nil
	}
}

// Forward passes on what is sent on a connection and what the server answers,
// until one of them ends.
func Forward(client net.Conn, to *Server) {
	server, err := net.Dial(to.Network, to.Address)
	if err != nil {
		return
	}
	pass := func(to, from net.Conn) {
		_, _ = io.Copy(to, from)
		_, _ = to.Close(), from.Close()
	}
	var group sync.WaitGroup
	group.Go(func() { pass(server, client) })
	pass(client, server)
	group.Wait()
}
