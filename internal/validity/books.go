package validity

import (
	"time"

	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/redis/driver"
)

// Books have the grants of one client that have not ended, what ends them, and
// the workers that renew them. Each part has its own file.
type Books struct {
	clock
	*places
	*suspends
	reports
	expiry   *expiryTimers
	fleets   *fleets
	switches switches
	warnings warnings
	client   Config
}

// New returns the books of one client. Their goroutines start with the first
// grant.
func New(c Config) *Books {
	from := clock{time.Now()}
	b := &Books{
		client: c, clock: from, places: newPlaces(), reports: reports{done: c.RenewDone},
		expiry: &expiryTimers{clock: from}, fleets: newFleets(c),
		switches: switches{clock: from}, warnings: warnings{clock: from, logger: c.Logger},
	}
	b.suspends = newSuspends(c, b.loseAll)
	return b
}

// adopt enters a grant in the books, so that Close ends it. It fails if the
// client was closed.
func (b *Books) adopt(r *Renewal) error {
	if !b.link(r) {
		b.client.Logger.Warn("relock: closed before a lock was released", r.grant.About()...)
		return errs.ErrClosed
	}
	b.suspends.start()
	return nil
}

// loseAll marks all grants lost after a suspend, and returns the follow-up
// work.
func (b *Books) loseAll() (follow followUps) {
	for _, r := range b.All() {
		follow = append(follow, r.andMoved(r.MarkLost(errs.Suspended))...)
	}
	return follow
}

// Close stops the timer and the workers. All grants have ended.
func (b *Books) Close() {
	b.expiry.close()
	b.fleets.close()
}

// NodesChanged is called when masters have changed. The nodes that have gone
// are not to be used any more. A new master may lack what the old one has
// answered, and one that was replaced for a while has lost it.
func (b *Books) NodesChanged(gone []driver.Node) {
	b.fleets.retire(gone)
	b.switches.note()
	for _, r := range b.All() {
		r.recheck.Store(true)
		r.RecheckNow()
	}
}
