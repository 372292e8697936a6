package suspend

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/relock-go/relock/internal/goroutines"
)

// Monitor ends all grants of one client when the machine was suspended, because
// others may hold the locks by then. Every backend has one.
type Monitor struct {
	watch  *Watch
	pause  time.Duration // between two checks
	logger *slog.Logger
	lose   func() (follow func())
	check  func()    // at intervals
	once   sync.Once // starts run
}

// Clocks show how long the machine was suspended, see [NewWatch].
type Clocks struct {
	All   func() time.Duration
	Split func(now time.Time) (wall, awake time.Duration)
	Pause time.Duration // between two checks without a call
}

// MachineClocks returns the clocks of this machine.
func MachineClocks() Clocks { return Clocks{WithSleep, Split, Pause} }

// NewMonitor returns a monitor that calls lose after a suspend. lose marks all
// grants lost, and returns the work that follows, or nil if no grant was valid.
// The mutex of the monitor is held while lose runs. From Start on, check is
// called at intervals: it calls CheckNow, and runs what follows.
func NewMonitor(c Clocks, logger *slog.Logger, lose func() (follow func()), check func()) *Monitor {
	return &Monitor{watch: NewWatch(c.All, c.Split), pause: c.Pause, logger: logger, lose: lose, check: check}
}

// Check ends all grants if the machine was suspended before now, which the
// caller has just read. Each call of a lock checks several times, so a check
// must cost almost nothing. follow is nil if nothing was lost. Otherwise the
// caller runs it when it holds no mutex, as it may call the user's logger.
func (m *Monitor) Check(now time.Time) (follow func()) {
	if m.watch.Fresh(now) {
		return nil
	}
	return m.CheckNow()
}

// CheckNow is [Monitor.Check], but always checks with the kernel. Other calls
// wait until all grants are marked lost, but not for the work that follows.
func (m *Monitor) CheckNow() (follow func()) {
	var ended func()
	m.watch.Ask(func() { ended = m.lose() })
	if ended == nil {
		return nil
	}
	return func() {
		m.logger.Warn("relock: the machine was suspended, all holds are lost")
		ended()
	}
}

// Since reports whether a suspend was noticed after then, when a request was
// sent. The sender checks before it sends, and before it calls Since. A suspend
// counts from when it was noticed. So one that ended before the first check
// invalidates no grant.
func (m *Monitor) Since(then time.Time) bool { return m.watch.Since(then) }

// Start calls check at intervals until life is cancelled. Only the first call
// starts that, with the first grant.
func (m *Monitor) Start(life context.Context, of *goroutines.Group) {
	m.once.Do(func() { of.Start(func() { m.run(life) }) }) // refuses only after Close
}

func (m *Monitor) run(life context.Context) {
	ticker := time.NewTicker(m.pause)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			m.check()
		case <-life.Done():
			return
		}
	}
}
