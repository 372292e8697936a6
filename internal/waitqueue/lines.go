package waitqueue

import (
	"strings"
	"sync/atomic"
	"time"

	"github.com/relock-go/relock/internal/background"
	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/script"
)

// lines are the calls of a client, in a line for each lock, with their entries.
// The maps are guarded by base.mu.
type lines struct {
	*base
	poller   *background.Fleet
	channels *subscriptions

	last atomic.Uint64 // number of the last hold that was drawn

	byKey map[string]*Line  // by the lock's key in Redis
	waits map[string]*Entry // by the hold that they take
	// Holds that a message has granted, whose claims are not answered. Their
	// entries are not cancelled: that would end the reservation.
	unclaimed map[string]script.Indeterminate
}

func newLines(b *base, channels *subscriptions) *lines {
	return &lines{
		base: b, poller: background.NewFleet(b.host.Life, b.host.Driver, b.host.Tasks), channels: channels,
		byKey: map[string]*Line{}, waits: map[string]*Entry{}, unclaimed: map[string]script.Indeterminate{},
	}
}

// NewHold returns the id of a new hold.
func (a *lines) NewHold() string { return a.host.Identity.Hold(a.last.Add(1)) }

// Enter returns the line of the lock, with one more call. Each Enter has its
// Exit.
func (a *lines) Enter(key, redisKey string) *Line {
	a.mu.Lock()
	defer a.mu.Unlock()
	l := a.byKey[redisKey]
	if l == nil {
		l = &Line{RedisKey: redisKey, lines: a, key: key, gate: make(chan struct{}, maxSending)}
		a.byKey[redisKey] = l
	}
	l.calls++
	return l
}

// EnterUsed is Enter if another call of the client is using the lock. If none
// is, it returns nil.
func (a *lines) EnterUsed(redisKey string) *Line {
	a.mu.Lock()
	defer a.mu.Unlock()
	l := a.byKey[redisKey]
	if l != nil {
		l.calls++
	}
	return l
}

// Uses reports whether any call of the client is using the lock.
func (a *lines) Uses(redisKey string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.byKey[redisKey] != nil
}

// check polls immediately for the chosen locks with queued entries; mu is held.
func (a *lines) check(chosen func(redisKey string) bool) {
	now := time.Now()
	for key, l := range a.byKey {
		if chosen(key) {
			l.check(now)
		}
	}
}

// retry wakes the calls that pause after an error; mu is held.
func (a *lines) retry() {
	for _, w := range a.waits {
		if w.Line.Answer().Err != nil || w.ticket == "" {
			w.Nudge()
		}
	}
}

// notify handles a message about an entry, or the answer to a poll. If mayGrant
// is false, the message is only a hint.
func (a *lines) notify(name, redisKey string, mayGrant bool) {
	hold, rest := lockspec.CutHold(name)
	if !strings.HasPrefix(hold, a.host.Identity.ID+":") || !strings.HasPrefix(redisKey, a.host.Prefix+"{") {
		return // no script of ours sent it
	}
	a.mu.Lock()
	w := a.waits[hold]
	if w != nil && w.Line.RedisKey != redisKey {
		w = nil
	}
	if _, granted := a.unclaimed[hold]; granted || w != nil && !w.deliverOrDelay(mayGrant && name == w.Name) {
		a.mu.Unlock()
		return
	}
	var retained *Entry
	if w != nil {
		w.parked = false // it is about to claim, and Redis may have granted it the lock
	} else if l := a.byKey[redisKey]; l != nil && l.retains(hold) {
		retained = l.takeRetained()
	}
	a.mu.Unlock()
	switch {
	case retained != nil: // no call uses it
		retained.Leave()
		retained.Line.Exit()
	case w != nil:
		w.Nudge()
	case rest != "":
		a.host.Retrier.BestEffort(CancelOf(redisKey, name, false))
	}
}

// CancelOf returns a request that removes a waiter from the queue, and releases
// what is reserved for it. With alsoHold, it also releases the hold that an
// entry has taken.
func CancelOf(redisKey, wait string, alsoHold bool) func(time.Time) script.Call {
	q := lockspec.QueueOf(wait)
	s := script.Call{Script: q.Cancel, Key: redisKey, Args: []any{wait, 0}}
	if alsoHold {
		s.Args[1] = 1
	}
	if q.Claim == nil {
		s.Args = s.Args[:1] // the waiter takes no hold
	}
	return func(time.Time) script.Call { return s }
}

// Cancels returns requests that cancel all queued entries. They also release
// what the entries are granted meanwhile.
func (a *lines) Cancels() (all []script.Call) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for key, l := range a.byKey {
		for _, w := range l.waits {
			all = append(all, CancelOf(key, w.Name, true)(time.Now()))
		}
	}
	return all
}
