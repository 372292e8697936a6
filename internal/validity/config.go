package validity

import (
	"context"
	"log/slog"

	"github.com/relock-go/relock/internal/goroutines"
	"github.com/relock-go/relock/internal/holds"
	"github.com/relock-go/relock/internal/redis/driver"
	"github.com/relock-go/relock/internal/suspend"
)

// Config is what books need of their client.
type Config struct {
	Driver    driver.Driver
	Logger    *slog.Logger
	Life      context.Context // cancelled when the client is closed
	Tasks     *goroutines.Group
	RenewDone func(context.Context, holds.End) // the observer of renewals; may be nil
	Clocks    suspend.Clocks
}
