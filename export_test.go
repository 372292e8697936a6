package relock

import (
	"github.com/relock-go/relock/internal/acquire"
	"github.com/relock-go/relock/internal/redis/driver"
)

// ConfigOf returns the settings of the client's connections.
func ConfigOf(c *Client) *driver.Config { return &c.config.Config }

// TargetOf returns what the lock is made for, with its settings.
func TargetOf(lock interface{ targeted() *acquire.Target }) *acquire.Target { return lock.targeted() }

func (b *base) targeted() *acquire.Target { return &b.target }
