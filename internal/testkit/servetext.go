package testkit

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/redistest"
)

// ServeText runs a server that sends the text on each connection after the
// given number of requests. It then ends the connection.
func ServeText(t testing.TB, text string, requests int) *redistest.Server {
	return Serve(t, func(conn net.Conn) {
		for lines, left := bufio.NewReader(conn), requests; left > 0; left-- {
			for range 5 {
				_, _ = lines.ReadString('\n')
			}
		}
		_, _ = fmt.Fprint(conn, text)
		_ = conn.(*net.TCPConn).CloseWrite()
		_, _ = io.Copy(io.Discard, conn) // unread data would reset the connection
	})
}

// Serve runs a server that handles each connection, and then closes it.
func Serve(t testing.TB, handle func(net.Conn)) *redistest.Server {
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
				handle(conn)
			})
		}
	})
	t.Cleanup(group.Wait)
	t.Cleanup(func() { _ = listener.Close() })
	return &redistest.Server{Network: "tcp", Address: listener.Addr().String()}
}
