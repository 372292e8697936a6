package lease

import (
	"time"

	"github.com/relock-go/relock/internal/background"
	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/script"
)

// endHolds ends what is held, and returns it. Of a RedLock, another client that is closed may have ended this one's part meanwhile, and
// leaves the key to it.
func endHolds(leases []*Lease) (held []*Lease) {
	for _, l := range leases {
		if why := l.check(); why == nil || why == errs.ErrClosed { //nolint:errorlint // our own sentinel
			held = append(held, l)
		}
	}
	for _, l := range leases {
		l.lose(errs.ErrClosed)
	}
	return held
}

// giveAllBack takes the waits out of their queues, sends what the retrier has not, and releases leases that Close has ended: over a
// connection of its own, as the workers send nothing any more, and for as long as one command may take. What is not answered by then stays
// until its lease ends.
func (m *Manager) giveAllBack(waits []script.Call, leases []*Lease) {
	leases = append(leases, m.stranded()...)
	half := time.Now().Add(m.CommandTimeout / 2)
	end := half.Add(m.CommandTimeout / 2)
	link := m.Driver.Link()
	defer time.AfterFunc(time.Until(end), link.Close).Stop() // a dial may take longer, and each batch would dial anew
	defer link.Close()
	background.SendUntil(half, link, waits) // first, so that nothing is handed over to calls that are over
	m.Retrier.SendLast(half, link)          // after stranded, from which a transfer comes here
	for i, o := range background.SendUntil(end, link, lastReleases(leases)) {
		if o.Err != nil || !script.IsOurs(o.Reply) {
			m.Logger.Warn("relock: closed before a lock was released", "key", leases[i].key)
		}
	}
}

// lastReleases give all levels back.
func lastReleases(leases []*Lease) (all []script.Call) {
	for _, l := range leases {
		l.mu.Lock()
		l.seq++
		all = append(all, l.releaseCall(0, l.seq, l.keep)(time.Now()))
		l.mu.Unlock()
	}
	return all
}
