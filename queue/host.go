package queue

import (
	"context"
	"log/slog"
	"time"

	"github.com/relock-go/relock/internal/background"
	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/outage"
	"github.com/relock-go/relock/internal/redis/driver"
	"github.com/relock-go/relock/internal/validity"
	"github.com/relock-go/relock/internal/waitqueue"
)

// host is what a queue uses of the engine of its client. It is the only place
// of the package that knows the manager of the client's locks.
type host struct {
	*validity.Books                     // of the deliveries
	Driver          driver.Driver       // for requests
	Retrier         *background.Retrier // for requests without an answer
	Queue           *waitqueue.Queue    // for messages and the names of receivers
	Outages         *outage.Log
	Suspect         *lease.Suspect
	Logger          *slog.Logger
	Life            context.Context // cancelled when the client is closed
	Identity        lockspec.Identity
	Prefix          string // of names, in Redis
	CommandTimeout  time.Duration
}

// hostOf returns what a queue uses of m, or nil if that is nil.
func hostOf(m *lease.Manager) *host {
	if m == nil {
		return nil
	}
	return &host{
		Books: m.Books, Driver: m.Driver, Retrier: m.Retrier, Queue: m.Queue, Outages: m.Outages, Suspect: &m.Suspect,
		Logger: m.Logger, Life: m.Life, Identity: m.Identity, Prefix: m.Prefix, CommandTimeout: m.CommandTimeout,
	}
}
