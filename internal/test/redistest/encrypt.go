package redistest

import (
	"crypto/tls"
	"net"
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
	return Serve(tb, l, func(client net.Conn) { Forward(client, s) }).Address
}
