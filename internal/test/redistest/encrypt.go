package redistest

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"sync"
	"testing"
)

// Encrypt returns the address of a listener that forwards what it decrypts to
// the server. It ends with the test.
func (s *Server) Encrypt(tb testing.TB, certificates []tls.Certificate) (address string) {
	tb.Helper()
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: certificates, MinVersion: tls.VersionTLS12})
	if err != nil {
		tb.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var group sync.WaitGroup
	group.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial(s.Network, s.Address)
			if err != nil {
				_ = client.Close()
				continue
			}
			for _, c := range [][2]net.Conn{{client, server}, {server, client}} {
				context.AfterFunc(ctx, func() { _ = c[0].Close() })
				group.Go(func() {
					_, _ = io.Copy(c[0], c[1]) // ends with either
					_ = c[0].Close()
				})
			}
		}
	})
	tb.Cleanup(func() {
		_ = l.Close()
		cancel()
		group.Wait()
	})
	return l.Addr().String()
}
