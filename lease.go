package relock

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/relock-go/relock/internal/background"
	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/script"
)

// protocol is how a kind of lock renews and releases what it holds in Redis.
type protocol interface {
	renew(lease time.Duration) script.Call
	// release leaves levels behind; with none it gives the key back, after keep. seq is the number of this
	// change.
	release(left levels, seq int, keep time.Duration) script.Call
	// lockKey returns where the lock is in Redis, holdID the id of the hold there.
	lockKey() string
	holdID() string
}

// enterer is the protocol of a kind whose owner may take the lock again.
type enterer interface {
	// enter goes to so many levels.
	enter(l levels, seq int, lease time.Duration) script.Call
}

// levels is how many a hold has, and how many of them write, of a read/write lock.
type levels struct{ all, writes int }

// lease is one grant of a key: what the client believes of it, and the levels that share it. A plain lock has
// one level.
//
// The belief ends at until, which is the sending of the request that set the expiry, plus the lease, less the
// drift: the key cannot end before. A timer enforces it without asking anybody.
type lease struct {
	client   *manager
	key      string // as the user named it
	protocol protocol
	doubt    script.Indeterminate        // acquiring requests whose answers never came
	undo     func(time.Time) script.Call // cancels the wait that it came from; nil when there was none
	owner    *owner                      // of a reentrant lock; nil for a plain one
	turn     turn                        // one change of the levels at a time; nil where there is only one
	lease    time.Duration               // that was granted; for so long after its sending a late copy of the acquire is looked for
	confirm  *driver.Ack                 // by replicas, of each renewal; nil when none is needed
	job      *background.Job             // in the watchdog
	parts    *bundle                     // of a hold that is made of several; nil for any other
	whole    *bundle                     // that it is one of; nil when it is of none

	mu     sync.Mutex // guards what follows; taken before Client.mu, never after
	until  time.Time
	over   error    // why the lease ended; nil while it is live
	levels []*level // not yet unlocked, oldest first
	live   int      // of them, those that are not over
	seq    int      // number of the last change of the levels
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
	spared string // name of a wait in the queue, "" when there is none
	heir   string // hold that a transfer in doubt may have made of it, "" when there is none
}

// errLate is an acquire that was granted after the lease or the maximum hold
// that it grants had ended.
var errLate = errs.Both(errors.New("the grant came when its lease or its maximum hold had ended"), driver.ErrTimeout)

// grant is what Redis has granted to a call.
type grant struct {
	key      string // as the user named it
	protocol protocol
	sent     time.Time // the request
	settings *lockspec.Spec
	tokens   script.Tokens
	doubt    script.Indeterminate        // requests that may still take the lock
	undo     func(time.Time) script.Call // cancels the wait that it came from; nil if there was none
}

// drift is how much sooner than the lease belief ends: clocks that do not run alike, and timers that fire
// late.
func drift(lease time.Duration) time.Duration { return lease/100 + 2*time.Millisecond }

// newLease starts the belief in a grant.
func newLease(m *manager, g *grant) *lease {
	s := g.settings
	l := &lease{
		client: m, key: g.key, protocol: g.protocol, doubt: g.doubt, undo: g.undo, tokens: g.tokens, lease: s.Lease, due: -1, seq: 1,
		length: s.Expiry(), since: g.sent.Sub(m.beliefs.start), confirm: s.Ack(), fair: s.Fair,
	}
	l.job = background.NewJob(&renewal{lease: l})
	l.until = g.sent.Add(s.Lease - drift(s.Lease))
	return l
}

// grant makes the hold of a call that nobody owns. It fails if the client was
// closed, and if the lease is over already; then the key is released.
func (m *manager) grant(ctx context.Context, g *grant) (*level, error) {
	return newLease(m, g).begin(ctx, g.sent, g.settings)
}

// begin enters a new lease in the client's books and returns its first level. It fails when the client was
// closed, and when the belief or the maximum hold is over before it began; then the key is released.
func (l *lease) begin(ctx context.Context, sent time.Time, s *lockspec.Spec) (*level, error) {
	if err := l.client.adopt(l); err != nil {
		l.client.logger.Warn("relock: closed before a lock was released", "key", l.key)
		return nil, err
	}
	l.mu.Lock()
	if l.over == nil {
		l.client.beliefs.watch(l)
	}
	l.mu.Unlock()
	now := time.Now()
	if l.client.vigil.since(sent, now) {
		l.lose(errs.ErrLockLost)
	}
	h, err := l.pushAt(ctx, sent, now, s)
	return h, tooLate(err)
}

// isAdopted reports whether the client's books had the lease when it began, so that Close ends it.
func (l *lease) isAdopted() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.over != nil || l.live > 0
}

// tooLate is why a first level that is over already, for this reason, is not granted; nil stays nil.
func tooLate(over error) error {
	if over == nil || over == errs.ErrClosed { //nolint:errorlint // our own sentinel
		return over
	}
	return errLate
}

// expire runs when the timer fires: the belief is over, unless it was lengthened meanwhile. It returns what is to be done
// about the loss, or nil.
func (l *lease) expire() (follow func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.over != nil:
		return nil
	case time.Until(l.until) > 0:
		l.client.beliefs.watch(l)
		return nil
	}
	return l.loseLocked(errs.ErrLockLost)
}

// lose ends the lease before its Unlock. Once lost, it stays lost; the key is released, so that others need
// not wait for its end.
func (l *lease) lose(why error) {
	l.markLost(why)()
}

// markLost is lose without what is to be done about it, which it returns.
func (l *lease) markLost(why error) (follow func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.loseLocked(why)
}

// loseLocked is lose with mu held. What it returns is to be called without.
func (l *lease) loseLocked(why error) (follow func()) {
	if l.over != nil {
		return func() {}
	}
	l.end(why)
	if l.whole != nil {
		l.whole.why.Store(&why)
	}
	var seen []*sighting
	for _, h := range l.levels {
		if h.over == nil && h.seen != nil {
			seen = append(seen, h.seen)
		}
		h.end(why)
	}
	l.live = 0
	return func() {
		l.leave()
		for _, s := range seen {
			defer s.report("hold", why)
		}
		l.takeSpared().LeaveWith(why)
		if l.whole != nil {
			defer l.whole.lost(l, why)
		}
		if l.parts != nil {
			l.parts.lose(why)
			return
		}
		if why == errs.ErrClosed { //nolint:errorlint // our own sentinel
			return // the connections are being cut
		}
		// First, as a log handler may take long.
		l.client.retrier.Retry(l.cleanup(l.doubt))
		if l.whole == nil {
			l.client.logger.Warn("relock: lock lost", "key", l.key, "reason", why.Error())
		}
	}
}

// cleanup is the release of what is left of the lease, in the background.
func (l *lease) cleanup(d script.Indeterminate) *background.Release {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seq++
	job := l.newCleanup(d, l.release(l.live, l.seq, l.keep))
	if l.live > 0 {
		job.Lost = l.endWithNotice
	}
	return job
}

// endWithNotice is what follows when a release in the background finds that the lease is not ours.
func (l *lease) endWithNotice() {
	l.endWithin(l.client.reasonLimit) // whatever the task waits for
	l.client.tasks.Start(func() { _ = l.refused() })
}

// newCleanup is a release in the background; mu is held. A late copy of the acquire may take the key again, or put
// its wait into the queue again, so that after the first answer the wait is cancelled.
func (l *lease) newCleanup(d script.Indeterminate, release func(time.Time) script.Call) *background.Release {
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
func (h *level) lengthen(length time.Duration) error {
	l := h.lease
	l.mu.Lock()
	defer l.mu.Unlock()
	if h.over == nil {
		l.length = max(l.length, length)
	}
	return h.over
}

// release is the request that leaves levels behind; with none the key is kept until keep; mu is held.
func (l *lease) release(left, seq int, keep time.Time) func(time.Time) script.Call {
	ending, p, whole, stay := l.ending, l.protocol, l.whole, levels{left, int(l.writes)}
	return func(now time.Time) script.Call {
		rest := max(0, keep.Sub(now)+time.Millisecond-1).Truncate(time.Millisecond) // rounded up
		if whole != nil && !whole.won.Load() {
			rest = 0 // nobody got the hold that it was to be a part of
		}
		s := p.release(stay, seq, rest)
		if ending != nil {
			s.Args = append(s.Args, ending.spared)
			if ending.heir != "" {
				s.Args = append(s.Args, ending.heir)
			}
		}
		return s
	}
}

// end marks the lease as over; mu is held.
func (l *lease) end(why error) {
	l.over = why
	l.client.beliefs.forget(l)
}

// leave takes the lease out of the client's books: no renewal is sent after that.
func (l *lease) leave() {
	l.renewer().Remove(l.job)
	l.client.forget(l)
}

// check declares the loss when the clock says so, ahead of the timer. It returns why the lease is over, or
// nil.
func (l *lease) check() error { return l.checkAt(time.Now()) }

func (l *lease) checkAt(now time.Time) error {
	l.mu.Lock()
	over, late := l.over, !now.Before(l.until)
	l.mu.Unlock()
	if over == nil && late {
		l.lose(errs.ErrLockLost)
		over = errs.ErrLockLost
	}
	return over
}

// believe moves the end of the belief, never back: a request sent at sent set the expiry to length or more.
// An answer that comes after the belief has ended revives nothing.
func (l *lease) believe(sent time.Time, length time.Duration) error {
	err := l.move(sent, length)
	if l.whole != nil {
		l.whole.reckon()
	}
	return err
}

func (l *lease) move(sent time.Time, length time.Duration) error {
	if err := l.check(); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if until := sent.Add(length - drift(length)); l.over == nil && until.After(l.until) {
		l.until = until
	}
	return l.over
}

// endWithin has the belief end in that time at the latest, of a lease that the server has refused: nobody gets it any more.
func (l *lease) endWithin(d time.Duration) {
	l.mu.Lock()
	l.suspect = true
	if until := time.Now().Add(d); l.over == nil && until.Before(l.until) {
		l.until = until
		l.client.beliefs.again(l)
	}
	l.mu.Unlock()
	if l.whole != nil {
		l.whole.reckon()
	}
}

// ends is until when the lease is believed in; zero when it is over.
func (l *lease) ends() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over != nil {
		return time.Time{}
	}
	return l.until
}

// covers reports whether the hold is one of this name.
func (l *lease) covers(key string) bool {
	if l.parts != nil && l.parts.keys != nil {
		return slices.Contains(l.parts.keys, key)
	}
	return l.key == key
}

// watchedLease is the longest lease that a level which is still held wants to be kept alive; 0 when none does.
func (l *lease) watchedLease() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.watched
}

// watch and unwatch keep count of the levels that want the longest lease, so that no change of a level looks at all
// the others; mu is held.
func (l *lease) watch(length time.Duration) {
	switch {
	case length > l.watched:
		l.watched, l.watchers = length, 1
	case length == l.watched:
		l.watchers++
	}
}

func (l *lease) unwatch(length time.Duration) {
	if length != l.watched {
		return
	}
	if l.watchers--; l.watchers > 0 {
		return
	}
	l.watched = 0
	for _, h := range l.levels {
		if h.watched && h.over == nil {
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
