package driver

import (
	"context"
	"crypto/tls"
	"net"
	"time"
)

// Config is what a driver needs to know about the options of a client.
type Config struct {
	Network, Address string
	Username         string
	// Password is a pointer, so that fmt does not print it. fmt follows one
	// pointer of a copied Client, which leads here, but not a second one.
	Password *string
	Database int
	TLS      *tls.Config
	UseTLS   bool

	// Dial connects, before TLS and log-in. It is nil for the system's
	// dialer.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)

	// Login returns the user and the password of a new connection. If it is
	// nil, they are Username and Password.
	Login func(ctx context.Context) (user, password string, err error)

	MaxIdle, MaxActive int
	Wait               bool
	IdleTimeout        time.Duration
	DialTimeout        time.Duration
	CommandTimeout     time.Duration
}
