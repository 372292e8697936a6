package driver

import (
	"crypto/tls"
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

	MaxIdle, MaxActive int
	Wait               bool
	IdleTimeout        time.Duration
	DialTimeout        time.Duration
	CommandTimeout     time.Duration
}
