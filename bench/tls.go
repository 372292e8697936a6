package main

import (
	"errors"
	"os"

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
	encrypted1  = on(withTLS, counted("TLS 1", 1, tlsLibraries...))
	encrypted64 = on(withTLS, counted("TLS 64", 64, tlsLibraries...))
)

// withTLS starts a server that takes TLS on another port, which its clients
// get.
func withTLS() (all servers, err error) {
	dir, err := os.MkdirTemp("", "relock-bench")
	if err != nil {
		return all, err
	}
	removed := func() { _ = os.RemoveAll(dir) }
	port, err := redistest.FindPort()
	args, certified := redistest.CertifyTLS(dir, port)
	if err = errors.Join(err, certified); err == nil {
		all, err = independent(1, args...)()
	}
	if err != nil {
		removed()
		return all, err
	}
	node := all.nodes[0]
	stop := node.stop
	node.encrypted, node.stop = "127.0.0.1:"+port, func() { stop(); removed() }
	return all, nil
}

func newRelockTLS(address string, goroutines int) (library, error) {
	return relocks(plainLock, relock.WithTLS(redistest.TrustTLS()))(address, goroutines)
}

// newTLSPool is newPool over TLS.
func newTLSPool(address string, goroutines int) *redis.Pool {
	return newPool(address, goroutines, redis.DialUseTLS(true), redis.DialTLSConfig(redistest.TrustTLS()))
}

func newRawTLS(address string, goroutines int) (library, error) {
	return &rawLibrary{newTLSPool(address, goroutines)}, nil
}

func newRedsyncTLS(address string, goroutines int) (library, error) {
	pool := newTLSPool(address, goroutines)
	return &redsyncLibrary{redsync.New(overredigo.NewPool(pool)), pool}, nil
}
