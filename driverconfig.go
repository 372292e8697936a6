package relock

import (
	"crypto/tls"
	"time"
)

// driverConfig is what a driver needs to know of the options of a client.
type driverConfig struct {
	network, address string
	username         string
	password         *string // fmt follows one pointer of a copied Client, which leads here, and not a second one
	database         int
	tls              *tls.Config
	useTLS           bool

	maxIdle, maxActive int
	wait               bool
	idleTimeout        time.Duration
	dialTimeout        time.Duration
	commandTimeout     time.Duration
}
