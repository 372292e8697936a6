package lease

import (
	"context"

	"github.com/relock-go/relock/internal/background"
	"github.com/relock-go/relock/internal/goroutines"
	"github.com/relock-go/relock/internal/localwait"
	"github.com/relock-go/relock/internal/outage"
	"github.com/relock-go/relock/internal/redis/conns"
	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/suspend"
	"github.com/relock-go/relock/internal/waitqueue"
)

// Manager is the engine of one client: its leases, their owners, and the
// workers that renew and release them.
type Manager struct {
	*client
	Owners *Owners
	end    context.CancelFunc
}

// New returns the engine of one client. Its goroutines start with the first
// lock.
func New(config Config) *Manager {
	c := &client{Config: config, Tasks: &goroutines.Group{}}
	m := &Manager{client: c, Owners: newOwners(c)}
	c.Life, m.end = context.WithCancel(context.Background())
	c.Books = c.newBooks(suspend.MachineClocks())
	c.Retrier = background.NewRetrier(background.NewFleet(c.Life, c.Driver, c.Tasks), c.Logger, c.DialTimeout)
	c.Queue = waitqueue.New(waitqueue.Host{
		Identity: c.Identity, Prefix: c.Prefix, Driver: c.Driver, Tasks: c.Tasks, Life: c.Life, Logger: c.Logger,
		Retrier: c.Retrier, Ask: c.Ask, Forced: m.Forced,
	})
	c.Local = localwait.New[Handed](c.Life)
	c.Outages = outage.New(c.Logger, c.startUnlessClosed)
	return m
}

// Close ends all waits and holds. It stops the goroutines of the manager, and
// waits for them. It must be called only once.
func (m *Manager) Close() error {
	m.Seal()
	grants := m.All()
	var waits []script.Call
	if m.ReleaseOnClose {
		waits = m.Queue.Cancels() // before the waiters leave
	}
	m.end()
	held := endHolds(grants)
	if m.ReleaseOnClose {
		m.giveAllBack(waits, held)
	} else {
		m.sendLast()
	}
	m.Books.Close()
	m.Retrier.Close()
	m.Queue.Close()
	err := m.Driver.Close()
	m.Tasks.WaitFor(conns.CloseWait)
	if !m.ReleaseOnClose {
		m.warnOfHeld(held)
	}
	for _, key := range m.Retrier.Unconfirmed() {
		m.Logger.Warn("relock: closed before a release was confirmed; the key may stay until its lease ends", "key", key)
	}
	return err
}
