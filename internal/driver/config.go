package driver

import (
	"crypto/tls"
	"time"
)

// Config is what a driver needs to know of the options of a client.
type Config struct {
	Network, Address string
	Username         string
	Password         *string // fmt follows one pointer of a copied Client, which leads here, and not a second one
	Database         int
	TLS              *tls.Config
	UseTLS           bool

	MaxIdle, MaxActive int
	Wait               bool
	IdleTimeout        time.Duration
	DialTimeout        time.Duration
	CommandTimeout     time.Duration
}
