package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"

	"github.com/go-redsync/redsync/v4"
	overredigo "github.com/go-redsync/redsync/v4/redis/redigo"
	"github.com/gomodule/redigo/redis"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/redistest"
)

// The libraries over TLS, where relock cannot wait for a socket itself.
const (
	oursTLS    = "relock over TLS"
	redsyncTLS = "redsync redigo over TLS"
	rawTLS     = "raw redigo over TLS"
)

var tlsLibraries = []string{oursTLS, rawTLS, redsyncTLS}

var (
	encrypted1  = encrypted("TLS 1", 1)
	encrypted64 = encrypted("TLS 64", 64)
)

// encrypted is distinct over TLS.
func encrypted(name string, goroutines int) scenario {
	s := distinct(goroutines)
	s.name, s.libraries, s.servers = name, tlsLibraries, withTLS
	return s
}

// withTLS starts a server that takes TLS on another port. Its clients get that
// address, and behind a space the file of the certificate to trust.
func withTLS() (all servers, err error) {
	dir, err := os.MkdirTemp("", "relock-bench")
	if err != nil {
		return all, err
	}
	removed := func() { _ = os.RemoveAll(dir) }
	port, err := redistest.FindPort()
	certificate, key := filepath.Join(dir, "certificate"), filepath.Join(dir, "key")
	if err = errors.Join(err, certify(certificate, key)); err == nil {
		all, err = independent(1, "--tls-port", port, "--tls-cert-file", certificate, "--tls-key-file", key,
			"--tls-ca-cert-file", certificate, "--tls-auth-clients", "no")()
	}
	if err != nil {
		removed()
		return all, err
	}
	node := all.nodes[0]
	stop := node.stop
	node.encrypted, node.stop = "127.0.0.1:"+port+" "+certificate, func() { stop(); removed() }
	return all, nil
}

// certify writes the certificate of net/http/httptest, which vouches for
// itself, and its key.
func certify(certificate, key string) error {
	server := httptest.NewTLSServer(nil)
	defer server.Close()
	pair := server.TLS.Certificates[0]
	private, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	return errors.Join(err,
		writePEM(certificate, "CERTIFICATE", pair.Certificate[0]), writePEM(key, "PRIVATE KEY", private))
}

func writePEM(path, kind string, data []byte) error {
	return os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: data}), 0o600)
}

// trust returns the address of a server, and the configuration that trusts it.
func trust(address string) (string, *tls.Config, error) {
	address, file, _ := strings.Cut(address, " ")
	text, err := os.ReadFile(file)
	if err != nil {
		return "", nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return "", nil, errors.New("no certificate in " + file)
	}
	return address, &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}, nil
}

func newRelockTLS(address string, _ int) (library, error) {
	address, config, err := trust(address)
	if err != nil {
		return nil, err
	}
	return relockWith(address, plainLock, relock.WithTLS(config))
}

// newTLSPool is newPool over TLS.
func newTLSPool(address string, goroutines int) (*redis.Pool, error) {
	address, config, err := trust(address)
	if err != nil {
		return nil, err
	}
	return newPool(address, goroutines, redis.DialUseTLS(true), redis.DialTLSConfig(config)), nil
}

func newRawTLS(address string, goroutines int) (library, error) {
	pool, err := newTLSPool(address, goroutines)
	return &rawLibrary{pool}, err
}

func newRedsyncTLS(address string, goroutines int) (library, error) {
	pool, err := newTLSPool(address, goroutines)
	if err != nil {
		return nil, err
	}
	return &redsyncLibrary{redsync.New(overredigo.NewPool(pool)), pool}, nil
}
