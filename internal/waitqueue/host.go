package waitqueue

import (
	"context"
	"log/slog"
	"sync"

	"github.com/relock-go/relock/internal/background"
	"github.com/relock-go/relock/internal/goroutines"
	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/redis/driver"
	"github.com/relock-go/relock/internal/script"
)

// Host is what a queue needs from its client.
type Host struct {
	Identity lockspec.Identity
	Prefix   string // of lock names
	Driver   driver.Driver
	Tasks    *goroutines.Group
	Life     context.Context // is cancelled with the client
	Logger   *slog.Logger
	Retrier  *background.Retrier
	// Ask sends a script that takes a lock.
	Ask func(context.Context, *lockspec.Spec, script.Call) (driver.Result, script.Indeterminate)
	// Forced is called when an operator has ended a hold.
	Forced func(hold, redisKey string)
}

// base is what all parts of a queue share.
type base struct {
	host Host
	mu   sync.Mutex // guards all of them
}
