// Package inspect implements what an operator asks of locks by their names: the
// state of one, the names of all, and the end of a hold by force. It reads the
// keys in Redis, so it works for the locks of any client. It has no goroutine
// and no state.
package inspect

import (
	"context"

	"github.com/relock-go/relock/internal/redis/driver"
	"github.com/relock-go/relock/internal/script"
)

// Locks are the locks at the servers of a client.
type Locks struct {
	Driver driver.Driver
	Prefix string                          // of lock names, in Redis
	Ready  func(ctx context.Context) error // returns why the client is closed, or that ctx has ended
	PassOn func(script.Call)               // hands a lock on whose waiters a script could not all check
}

// key returns the key in Redis of the lock with this name.
func (l Locks) key(name string) string { return l.Prefix + "{" + name + "}" }
