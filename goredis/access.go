package goredis

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/engine"
	"github.com/relock-go/relock/internal/redis/driver"
)

// access is how to connect and log in to servers as go-redis would.
type access struct {
	dial    dialFunc
	timeout time.Duration // for connecting, 0 for that of go-redis
	login   func(ctx context.Context, address string) (user, password string, err error)
	logout  func() error // ends the use of the credentials
}

type dialFunc func(ctx context.Context, network, address string) (net.Conn, error)

// dialerOf returns the user's dialer, or else one that ends with its context,
// which that of go-redis does not with TLS.
func dialerOf(users dialFunc, config *tls.Config) dialFunc {
	switch {
	case users != nil:
		return users
	case config != nil:
		return (&tls.Dialer{Config: config}).DialContext
	}
	return (&net.Dialer{}).DialContext
}

// config returns the settings of connections that ask where servers are.
func (a *access) config() *driver.Config {
	return &driver.Config{
		Password: new(string), Dial: a.dial, DialTimeout: cmp.Or(a.timeout, 5*time.Second),
		Login: func(ctx context.Context) (user, password string, err error) { return a.login(ctx, "") },
	}
}

// clientOf returns a client of the servers of t.
func clientOf(t *driver.Topology, db int, opts []relock.ClientOption) (*relock.Client, error) {
	made, err := engine.NewClient(t, append([]relock.ClientOption{relock.WithDatabase(db)}, opts...))
	client, _ := made.(*relock.Client)
	return client, err
}

// to returns a topology that finds servers as t does.
func (a *access) to(t *driver.Topology) *driver.Topology {
	all := *t
	all.Dial = func(ctx context.Context, address string) (net.Conn, error) { return a.dial(ctx, "tcp", address) }
	all.Login = a.login
	all.Close = func() error { return errors.Join(t.Close(), a.logout()) }
	return &all
}
