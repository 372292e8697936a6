package search

import (
	"fmt"
	"time"

	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/redis/driver"
)

// ShortConfig returns the settings of connections for a request or two.
func ShortConfig(servers *driver.Config, address string, limit time.Duration) *driver.Config {
	c := *servers
	c.Network, c.Address = "tcp", address
	c.DialTimeout, c.CommandTimeout = limit, limit
	c.MaxIdle, c.MaxActive = 1, 0
	return &c
}

func Command(name string, args ...any) driver.Request { return driver.Request{Cmd: name, Args: args} }

// Translate returns an address as the client has to use it. The function is
// the user's, or nil.
func Translate(f func(address string) string, address string) (used string, err error) {
	if f == nil {
		return address, nil
	}
	defer func() {
		if p := recover(); p != nil {
			err = NewReason(fmt.Sprintf("WithAddressMap panicked: %v", p), errs.ErrInvalid)
		}
	}()
	if used = f(address); used == "" {
		return "", NewReason("WithAddressMap: returned an empty address", errs.ErrInvalid)
	}
	return used, nil
}
