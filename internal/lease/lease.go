package lease

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/relock-go/relock/internal/background"
	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/holds"
	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/waitqueue"
)

// Protocol is how a kind of lock renews and releases what it holds in Redis.
type Protocol interface {
	Renew(lease time.Duration) script.Call
	// Release leaves levels behind; with none it gives the key back, after keep. seq is the number of this
	// change.
	Release(left Levels, seq int, keep time.Duration) script.Call
	// LockKey returns where the lock is in Redis, holdID the id of the hold there.
	LockKey() string
	HoldID() string
}

// enterer is the protocol of a kind whose owner may take the lock again.
type enterer interface {
	// Enter goes to so many levels.
	Enter(l Levels, seq int, lease time.Duration) script.Call
}

// Levels is how many a hold has, and how many of them write, of a read/write lock.
type Levels struct{ All, Writes int }

// Lease is one grant of a key: what the client believes of it, and the levels that share it. A plain lock has
// one level.
//
// The belief ends at until, which is the sending of the request that set the expiry, plus the lease, less the
// drift: the key cannot end before. A timer enforces it without asking anybody.
type Lease struct {
	client   *Manager
	key      string // as the user named it
	protocol Protocol
	doubt    script.Indeterminate        // acquiring requests whose answers never came
	undo     func(time.Time) script.Call // cancels the wait that it came from; nil when there was none
	owner    *Owner                      // of a reentrant lock; nil for a plain one
	turn     turn                        // one change of the levels at a time; nil where there is only one
	lease    time.Duration               // that was granted; for so long after its sending a late copy of the acquire is looked for
	confirm  *driver.Ack                 // by replicas, of each renewal; nil when none is needed
	job      *background.Job             // in the watchdog
	group    *Group                      // of a hold that is made of several; nil for any other
	memberOf *Group                      // that it is one of; nil when it is of none

	mu         sync.Mutex // guards what follows; taken before Client.mu, never after
	validUntil time.Time
	over       error // why the lease ended; nil while it is live
	levels     holds.Levels[*Hold]
	seq        int // number of the last change of the levels
	// The longest lease of a watched level that is held, and how many want it.
	watched  time.Duration
	watchers int32
	due      int32         // its place with the client's beliefs, which guard it; -1 when it has none
	writes   int32         // of the live levels, the ones that write, of a read/write lock
	fair     bool          // its lock; never changed
	suspect  bool          // the server has said that it is not ours; why is being asked
	passes   int16         // how often it was passed on since Redis granted it
	length   time.Duration // the longest lease that was asked for
	since    time.Duration // when Redis granted it, after the client's start
	tokens   script.Tokens // of the grant, from the present holder's on
	ending   *ending       // what else its release ends; nil when that is nothing
	keep     time.Time     // the key stays until then, see WithMinHold
}

// ending is what the release of a lease ends besides its hold, of a lock that goes on in one process.
type ending struct {
	retained string // name of a wait in the queue, "" when there is none
	heir     string // hold that a transfer in doubt may have made of it, "" when there is none
}

// ErrLate is an acquire that was granted after the lease or the maximum hold
// that it grants had ended.
var ErrLate = errs.Both(errors.New("the grant came when its lease or its maximum hold had ended"), driver.ErrTimeout)

// Grant is what Redis has granted to a call.
type Grant struct {
	Key      string // as the user named it
	Protocol Protocol
	Sent     time.Time // the request
	Settings *lockspec.Spec
	Tokens   script.Tokens
	Doubt    script.Indeterminate        // requests that may still take the lock
	Undo     func(time.Time) script.Call // cancels the wait that it came from; nil if there was none
}

// Queued returns what an entry of the queue was granted, by a request that was
// sent at sent.
func Queued(g *waitqueue.Granted, key string, p Protocol, sent time.Time, s *lockspec.Spec) *Grant {
	return &Grant{Key: key, Protocol: p, Sent: sent, Settings: s, Tokens: g.Tokens, Doubt: g.Doubt, Undo: g.Undo}
}

// Drift is how much sooner than the lease belief ends: clocks that do not run alike, and timers that fire
// late.
func Drift(lease time.Duration) time.Duration { return lease/100 + 2*time.Millisecond }

// newLease starts the belief in a grant.
func newLease(m *Manager, g *Grant) *Lease {
	s := g.Settings
	l := &Lease{
		client: m, key: g.Key, protocol: g.Protocol, doubt: g.Doubt, undo: g.Undo, tokens: g.Tokens, lease: s.Lease, due: -1, seq: 1,
		length: s.Expiry(), since: g.Sent.Sub(m.expiry.start), confirm: s.Ack(), fair: s.Fair,
	}
	l.job = background.NewJob(&renewal{lease: l})
	l.validUntil = g.Sent.Add(s.Lease - Drift(s.Lease))
	return l
}

// Grant makes the hold of a call that nobody owns. It fails if the client was
// closed, and if the lease is over already; then the key is released.
func (m *Manager) Grant(ctx context.Context, g *Grant) (*Hold, error) {
	return newLease(m, g).begin(ctx, g.Sent, g.Settings)
}

// begin enters a new lease in the client's books and returns its first level. It fails when the client was
// closed, and when the belief or the maximum hold is over before it began; then the key is released.
func (l *Lease) begin(ctx context.Context, sent time.Time, s *lockspec.Spec) (*Hold, error) {
	if err := l.client.adopt(l); err != nil {
		l.client.Logger.Warn("relock: closed before a lock was released", "key", l.key)
		return nil, err
	}
	l.mu.Lock()
	if l.over == nil {
		l.client.expiry.watch(l)
	}
	l.mu.Unlock()
	now := time.Now()
	if l.client.monitor.suspendedSince(sent, now) {
		l.lose(errs.ErrLockLost)
	}
	h, err := l.pushAt(ctx, sent, now, s)
	return h, tooLate(err)
}

// isAdopted reports whether the client's books had the lease when it began, so that Close ends it.
func (l *Lease) isAdopted() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.over != nil || l.levels.Live > 0
}

// tooLate is why a first level that is over already, for this reason, is not granted; nil stays nil.
func tooLate(over error) error {
	if over == nil || over == errs.ErrClosed { //nolint:errorlint // our own sentinel
		return over
	}
	return ErrLate
}

// expire runs when the timer fires: the belief is over, unless it was lengthened meanwhile. It returns what is to be done
// about the loss, or nil.
func (l *Lease) expire() (follow func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.over != nil:
		return nil
	case time.Until(l.validUntil) > 0:
		l.client.expiry.watch(l)
		return nil
	}
	return l.loseLocked(errs.ErrLockLost)
}

// lose ends the lease before its Unlock. Once lost, it stays lost; the key is released, so that others need
// not wait for its end.
func (l *Lease) lose(why error) {
	l.markLost(why)()
}

// markLost is lose without what is to be done about it, which it returns.
func (l *Lease) markLost(why error) (follow func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.loseLocked(why)
}

// loseLocked is lose with mu held. What it returns is to be called without.
func (l *Lease) loseLocked(why error) (follow func()) {
	if l.over != nil {
		return func() {}
	}
	l.end(why)
	if l.memberOf != nil {
		l.memberOf.why.Store(&why)
	}
	var seen []*holds.Report
	for _, h := range l.levels.All {
		if h.ends.Over() == nil && h.report != nil {
			seen = append(seen, h.report)
		}
		h.end(why)
	}
	l.levels.Live = 0
	return func() {
		l.leave()
		for _, s := range seen {
			defer s.Done("hold", why)
		}
		l.takeRetained().LeaveWith(why)
		if l.memberOf != nil {
			defer l.memberOf.lost(l, why)
		}
		if l.group != nil {
			l.group.lose(why)
			return
		}
		if why == errs.ErrClosed { //nolint:errorlint // our own sentinel
			return // the connections are being cut
		}
		// First, as a log handler may take long.
		l.client.Retrier.Retry(l.cleanup(l.doubt))
		if l.memberOf == nil {
			l.client.Logger.Warn("relock: lock lost", "key", l.key, "reason", why.Error())
		}
	}
}

// cleanup is the release of what is left of the lease, in the background.
func (l *Lease) cleanup(d script.Indeterminate) *background.Release {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seq++
	job := l.newCleanup(d, l.release(l.levels.Live, l.seq, l.keep))
	if l.levels.Live > 0 {
		job.Lost = l.endWithNotice
	}
	return job
}

// endWithNotice is what follows when a release in the background finds that the lease is not ours.
func (l *Lease) endWithNotice() {
	l.endWithin(l.client.reasonLimit) // whatever the task waits for
	l.client.Tasks.Start(func() { _ = l.refused() })
}

// newCleanup is a release in the background; mu is held. A late copy of the acquire may take the key again, or put
// its wait into the queue again, so that after the first answer the wait is cancelled.
func (l *Lease) newCleanup(d script.Indeterminate, release func(time.Time) script.Call) *background.Release {
	job := background.NewRelease(l.key, l.length, l.lease, d, release)
	if l.undo != nil && d.Exists() {
		job.Call = func(now time.Time) script.Call {
			if job.IsAnswered() {
				return l.undo(now)
			}
			return release(now)
		}
	}
	return job
}

// lengthen notes that a request is about to set the expiry to length: the key may stay as long from now on,
// whether it is answered or not, and is not passed on. It fails if the level is over: the lease may be somebody else's.
func (h *Hold) lengthen(length time.Duration) error {
	l := h.lease
	l.mu.Lock()
	defer l.mu.Unlock()
	if h.ends.Over() == nil {
		l.length = max(l.length, length)
	}
	return h.ends.Over()
}

// release is the request that leaves levels behind; with none the key is kept until keep; mu is held.
func (l *Lease) release(left, seq int, keep time.Time) func(time.Time) script.Call {
	ending, p, whole, stay := l.ending, l.protocol, l.memberOf, Levels{left, int(l.writes)}
	return func(now time.Time) script.Call {
		rest := max(0, keep.Sub(now)+time.Millisecond-1).Truncate(time.Millisecond) // rounded up
		if whole != nil && !whole.returned.Load() {
			rest = 0 // nobody got the hold that it was to be a part of
		}
		s := p.Release(stay, seq, rest)
		if ending != nil {
			s.Args = append(s.Args, ending.retained)
			if ending.heir != "" {
				s.Args = append(s.Args, ending.heir)
			}
		}
		return s
	}
}

// end marks the lease as over; mu is held.
func (l *Lease) end(why error) {
	l.over = why
	l.client.expiry.forget(l)
}

// leave takes the lease out of the client's books: no renewal is sent after that.
func (l *Lease) leave() {
	l.renewer().Remove(l.job)
	l.client.forget(l)
}

// check declares the loss when the clock says so, ahead of the timer. It returns why the lease is over, or
// nil.
func (l *Lease) check() error { return l.checkAt(time.Now()) }

func (l *Lease) checkAt(now time.Time) error {
	l.mu.Lock()
	over, late := l.over, !now.Before(l.validUntil)
	l.mu.Unlock()
	if over == nil && late {
		l.lose(errs.ErrLockLost)
		over = errs.ErrLockLost
	}
	return over
}

// extendValidity moves the end of the belief, never back: a request sent at sent set the expiry to length or more.
// An answer that comes after the belief has ended revives nothing.
func (l *Lease) extendValidity(sent time.Time, length time.Duration) error {
	err := l.move(sent, length)
	if l.memberOf != nil {
		l.memberOf.reckon()
	}
	return err
}

func (l *Lease) move(sent time.Time, length time.Duration) error {
	if err := l.check(); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if until := sent.Add(length - Drift(length)); l.over == nil && until.After(l.validUntil) {
		l.validUntil = until
	}
	return l.over
}

// endWithin has the belief end in that time at the latest, of a lease that the server has refused: nobody gets it any more.
func (l *Lease) endWithin(d time.Duration) {
	l.mu.Lock()
	l.suspect = true
	if until := time.Now().Add(d); l.over == nil && until.Before(l.validUntil) {
		l.validUntil = until
		l.client.expiry.again(l)
	}
	l.mu.Unlock()
	if l.memberOf != nil {
		l.memberOf.reckon()
	}
}

// ends is until when the lease is believed in; zero when it is over.
func (l *Lease) ends() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over != nil {
		return time.Time{}
	}
	return l.validUntil
}

// covers reports whether the hold is one of this name.
func (l *Lease) covers(key string) bool {
	if l.group != nil && l.group.keys != nil {
		return slices.Contains(l.group.keys, key)
	}
	return l.key == key
}

// watchedLease is the longest lease that a level which is still held wants to be kept alive; 0 when none does.
func (l *Lease) watchedLease() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.watched
}

// watch and unwatch keep count of the levels that want the longest lease, so that no change of a level looks at all
// the others; mu is held.
func (l *Lease) watch(length time.Duration) {
	switch {
	case length > l.watched:
		l.watched, l.watchers = length, 1
	case length == l.watched:
		l.watchers++
	}
}

func (l *Lease) unwatch(length time.Duration) {
	if length != l.watched {
		return
	}
	if l.watchers--; l.watchers > 0 {
		return
	}
	l.watched = 0
	for _, h := range l.levels.All {
		if h.watched && h.ends.Over() == nil {
			l.watch(h.settings.Lease)
		}
	}
}

// turn serialises the changes of one owner's levels. It is held while a request is under way, never while a
// waiter sleeps.
type turn chan struct{}

func newTurn() turn { return make(turn, 1) }

// take waits for the turn, which its holder gives back when the server has answered or the command timeout is
// over.
func (t turn) take() {
	if t != nil {
		t <- struct{}{}
	}
}

// takeUntil waits for the turn as long as ctx allows.
func (t turn) takeUntil(ctx context.Context) bool {
	select {
	case t <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

func (t turn) give() {
	if t != nil {
		<-t
	}
}
