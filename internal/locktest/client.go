package locktest

import (
	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/driver"
)

// Sharing makes all commands of locks share one connection, not only those
// beyond the first few.
func Sharing(c *relock.Client) *relock.Client {
	Engine(c).Driver.(*driver.Pool).Apart = 0
	return c
}
