package relock

import (
	"net/url"
	"strings"
	"time"

	"github.com/relock-go/relock/internal/script"
)

// A LockOption configures one lock. Given to a [Client] it is the default of
// its locks; a lock's own option wins, and a default that a kind of lock cannot
// honour is ignored there. A nil one is [ErrInvalid].
type LockOption interface {
	ClientOption
	applyLock(*lockConfig)
}

// option names one LockOption, as a bit.
type option uint

const (
	optBlock option = 1 << iota
	optBlockTimeout
	optPollInterval
	optExpiry
	optWatchdog
	optMaxHold
	optMinHold
	optOwner
	optLabel
	optFair
	optFencing
	optQueueLimit
	optReplicas
	optMaxLease

	optLast = optMaxLease
)

var optionNames = map[option]string{
	optBlock:        "WithBlock",
	optBlockTimeout: "WithBlockTimeout",
	optPollInterval: "WithPollInterval",
	optExpiry:       "WithExpiry",
	optWatchdog:     "WithWatchdog",
	optMaxHold:      "WithMaxHold",
	optMinHold:      "WithMinHold",
	optOwner:        "WithOwner",
	optLabel:        "WithLabel",
	optFair:         "WithFair",
	optFencing:      "WithFencing",
	optQueueLimit:   "WithQueueLimit",
	optReplicas:     "WithReplicas",
	optMaxLease:     "WithMaxLease",
}

const (
	defaultLease        = 30 * time.Second
	defaultPollInterval = 50 * time.Millisecond

	minLease = 10 * time.Millisecond
	maxLease = 10 * 365 * 24 * time.Hour
	minPoll  = time.Millisecond

	maxLabel = 256
	maxOwner = 256

	maxQueueLimit = 1_000_000
)

// lockConfig is what the options of a lock say; given has the ones that were given.
type lockConfig struct {
	given        option
	blockTimeout time.Duration
	pollInterval time.Duration
	expiry       time.Duration
	watchdog     time.Duration
	maxHold      time.Duration
	minHold      time.Duration
	owner        string
	label        string
	queueLimit   int
	replicas     int
	replicaTime  time.Duration
	maxLease     time.Duration
}

// lockOption sets one field and notes that it was given.
type lockOption struct {
	name option
	set  func(*lockConfig)
}

func (o lockOption) applyLock(c *lockConfig) {
	c.given |= o.name
	if o.set != nil {
		o.set(c)
	}
}

func (o lockOption) applyClient(c *clientConfig) { o.applyLock(&c.locks) }

// WithBlock makes Lock wait until it gets the lock or its context ends. By default it makes one attempt.
func WithBlock() LockOption { return lockOption{name: optBlock} }

// WithBlockTimeout makes Lock wait for at most d; then it fails with [ErrLockAcquiredByOthers] or the last
// error of the server. It implies [WithBlock].
func WithBlockTimeout(d time.Duration) LockOption {
	return lockOption{optBlock | optBlockTimeout, func(c *lockConfig) { c.blockTimeout = d }}
}

// WithFair hands the lock over in the order of arrival, over all processes, and no TryLock overtakes who waits. A
// client that is gone costs its successors next to nothing, one that hangs the time that a waiter has to take what
// was handed to it, see [WithPollInterval]. All users of a key have to agree on it: whoever meets a lock of the
// other mode gets [ErrKeyConflict]. By default a newcomer may take a lock that has just become free; but a waiter
// that has been there for over 10ms is the next for certain when the lock is given back, not when it ends by itself.
func WithFair() LockOption { return lockOption{name: optFair} }

// WithPollInterval sets how often a waiter looks at the lock by itself while no message can wake it, and how soon it
// tries again after an error. It may be 1ms to a quarter of the lease. The default is 50ms, or a quarter of the
// lease where that is less.
//
// A waiter that the lock is handed to has 1.25s to take it, or four poll intervals where that is more, and one lease
// at most; then the next one has its turn.
func WithPollInterval(d time.Duration) LockOption {
	return lockOption{optPollInterval, func(c *lockConfig) { c.pollInterval = d }}
}

// WithExpiry gives the hold a fixed lease that is never renewed: after d it is lost. It must be whole
// milliseconds, 10ms to 10 years, and excludes [WithWatchdog]. By default the lease is kept alive, see [WithWatchdog].
func WithExpiry(d time.Duration) LockOption {
	return lockOption{optExpiry, func(c *lockConfig) { c.expiry = d }}
}

// WithWatchdog sets the lease that the client's watchdog keeps alive: it is renewed every third of it, and
// when the process dies the lock is free after at most d. It must be whole milliseconds, 10ms to 10 years. The
// default is 30s.
func WithWatchdog(d time.Duration) LockOption {
	return lockOption{optWatchdog, func(c *lockConfig) { c.watchdog = d }}
}

// WithMaxHold ends a hold that is not unlocked within d and releases it; its error matches [ErrMaxHold] and
// [ErrLockLost]. It bounds what a forgotten Unlock or a stuck goroutine can do. By default there is no limit.
func WithMaxHold(d time.Duration) LockOption {
	return lockOption{optMaxHold, func(c *lockConfig) { c.maxHold = d }}
}

// WithMinHold keeps the key for at least d after the request was sent that has
// locked it, even when Unlock comes sooner: Unlock returns at once, and others
// get the lock when d is over. It must be whole milliseconds, 10ms to 10 years,
// and no more than [WithMaxHold]. With a minimum above the lease the key is
// taken for d at once, so that neither a crash nor an outage cuts it short. By
// default there is no minimum.
//
// If several replicas have a job that is to run once per period, call TryDo at
// each tick with nine tenths of the period as d. With the whole period, runs
// are skipped: the key is taken a moment after a tick, and is still there at
// the next one. With a much shorter d, the job can run twice, because the
// clocks of the replicas differ.
func WithMinHold(d time.Duration) LockOption {
	return lockOption{optMinHold, func(c *lockConfig) { c.minHold = d }}
}

// WithOwner names the owner of a reentrant or read/write lock, 1 to 256 bytes: calls with the same owner on the same client
// share the hold. By default the goroutine is the owner. See [ContextWithOwner].
func WithOwner(id string) LockOption {
	return lockOption{optOwner, func(c *lockConfig) { c.owner = id }}
}

// WithLabel stores s beside the lock, for people who look at it; at most 256 bytes as escaped for a URL. By
// default there is none.
func WithLabel(s string) LockOption {
	return lockOption{optLabel, func(c *lockConfig) { c.label = s }}
}

// WithFencing gives each hold a fencing token, see [Hold]: a number that is
// higher than those of all holds before it, whatever becomes of them. A store
// that refuses a write with a token below the highest that it has seen is safe
// from a holder that was paused beyond its lease, and does not know it yet. By
// default there is none.
//
// A token is the server's time in microseconds, or one more than the last token
// if that is higher. An unfair [RedisLock] sets some tokens aside, because it
// can be passed on within a process. No token is more than 63 µs ahead of the
// server's clock. So if Redis loses its data, a grant 63 µs later gets a higher
// token than all before it, as long as the server's clock is not set back.
//
// A level of a reentrant hold has the token of the hold, and is [ErrInvalid]
// where that has none.
func WithFencing() LockOption { return lockOption{name: optFencing} }

// WithQueueLimit lets a call fail at once with [ErrQueueFull] when n others wait for the lock: in Redis, and, as the calls
// of one client for an unfair lock share one place there, in this client. Those whose process is gone count until the lock
// is given back and their turn comes. It may be 1 to a million. By default there is no limit.
func WithQueueLimit(n int) LockOption {
	return lockOption{optQueueLimit, func(c *lockConfig) { c.queueLimit = n }}
}

// WithReplicas makes a lock wait until n replicas of the server have it, for at most timeout: an acquire that too few
// confirm in time fails with [ErrReplicas], and is given back. A renewal that too few confirm does not lengthen the hold, and is
// tried again until that ends; an Extend fails with [ErrReplicas] and leaves the hold as it was. So a failover to any replica that
// has all that n of them have confirmed keeps the lock. It makes a loss in a failover less likely, and does not rule it out: Redis
// does not say which replica will be chosen. timeout is whole milliseconds, 10ms to a quarter of the lease. A lock that is passed on
// within a process was confirmed before. A level of a reentrant hold waits for the replicas of the hold, and is [ErrInvalid] when it
// asks for more. By default no replica is waited for.
func WithReplicas(n int, timeout time.Duration) LockOption {
	return lockOption{optReplicas, func(c *lockConfig) { c.replicas, c.replicaTime = n, timeout }}
}

// WithMaxLease sets the largest lease that any user of a [RedLock] may ask for, with [WithExpiry], [WithWatchdog],
// [WithMinHold] or [Hold.Extend]; a larger one is [ErrInvalid]. A node whose server was started less than that and a
// second or two ago is not counted: it may have forgotten a lock. All users of a key have to agree on it. It must be whole milliseconds, 10ms
// to 10 years. The default is 30s. It is for RedLock alone.
func WithMaxLease(d time.Duration) LockOption {
	return lockOption{optMaxLease, func(c *lockConfig) { c.maxLease = d }}
}

// has says whether any of the options was given.
func (c *lockConfig) has(o option) bool { return c.given&o != 0 }

// check reports the mistakes in the options by themselves.
func (c *lockConfig) check(m *mistakes) {
	m.check(!c.has(optBlockTimeout) || c.blockTimeout > 0, "WithBlockTimeout: %v is not above 0", c.blockTimeout)
	m.check(!c.has(optPollInterval) || c.pollInterval >= minPoll, "WithPollInterval: %v is below %v", c.pollInterval, minPoll)
	m.check(!c.has(optMaxHold) || c.maxHold > 0, "WithMaxHold: %v is not above 0", c.maxHold)
	m.check(!c.has(optExpiry) || !c.has(optWatchdog), "WithExpiry and WithWatchdog: a lease is either fixed or kept alive")
	c.checkLease(m, optExpiry, c.expiry)
	c.checkLease(m, optWatchdog, c.watchdog)
	c.checkLease(m, optMinHold, c.minHold)
	c.checkLease(m, optMaxLease, c.maxLease)
	m.check(!c.has(optMaxHold) || !c.has(optMinHold) || c.maxHold >= c.minHold, "WithMaxHold: %v is below the minimum hold of %v", c.maxHold, c.minHold)
	m.check(!c.has(optOwner) || (c.owner != "" && len(c.owner) <= maxOwner), "WithOwner: an id has 1 to %d bytes", maxOwner)
	m.check(!c.has(optQueueLimit) || (c.queueLimit >= 1 && c.queueLimit <= maxQueueLimit), "WithQueueLimit: %d is not 1 to %d", c.queueLimit, maxQueueLimit)
	m.check(!c.has(optReplicas) || c.replicas >= 1, "WithReplicas: %d replicas are below 1", c.replicas)
	c.checkLease(m, optReplicas, c.replicaTime)
	m.check(len(escape(c.label)) <= maxLabel, "WithLabel: longer than %d bytes when escaped", maxLabel)
}

// checkLease reports a duration that Redis, which counts whole milliseconds, would not keep.
func (c *lockConfig) checkLease(m *mistakes, o option, d time.Duration) {
	if c.has(o) {
		m.checkMillis(optionNames[o], d)
	}
}

func (m *mistakes) checkMillis(name string, d time.Duration) {
	m.check(d >= minLease, "%s: %v is below %v", name, d, minLease)
	m.check(d <= maxLease, "%s: %v is above %v", name, d, maxLease)
	m.check(d%time.Millisecond == 0, "%s: %v has a fraction of a millisecond", name, d)
}

// lockSettings is what a lock goes by: its own options over the defaults of its client.
type lockSettings struct {
	block        bool
	watched      bool
	fair         bool
	fencing      bool
	kind         *kind
	blockTimeout time.Duration // 0: until the context ends
	poll         time.Duration
	lease        time.Duration
	maxHold      time.Duration // 0: no limit
	minHold      time.Duration // 0: none
	owner        string
	label        string        // escaped
	queueLimit   int           // 0: none
	maxLease     time.Duration // that is allowed; 0: no limit

	replicas       int // 0: none are waited for
	replicaTimeout time.Duration
}

// claim is how long a lock that was handed over waits for its new holder: longer than the period, so that one that
// missed the message learns of it by its poll.
func (s *lockSettings) claim() time.Duration {
	return min(s.lease, max(1250*time.Millisecond, 4*s.poll)).Truncate(time.Millisecond)
}

// period is how often a client that waits shows that it lives.
func (s *lockSettings) period() time.Duration {
	return max(s.poll, min(time.Second, s.lease/3, s.claim()*4/5), time.Millisecond)
}

// asked is the expiry that an acquire asks for: the key stays for the minimum hold even when no release comes
// through before the lease has ended. Belief goes by the lease alone.
func (s *lockSettings) asked() time.Duration { return max(s.lease, s.minHold) }

// kindName returns the name of the kind, "" for a lock that was not made by its
// constructor.
func (s *lockSettings) kindName() string {
	if s.kind == nil {
		return ""
	}
	return s.kind.name
}

// settle checks a lock's own options and lays them over the defaults, as far as
// its kind can honour them.
func settle(defaults lockConfig, opts []LockOption, k *kind, m *mistakes) lockSettings {
	allowed := k.options
	var own lockConfig
	for i, opt := range opts {
		if m.check(opt != nil, "opts[%d]: LockOption is nil", i); opt != nil {
			opt.applyLock(&own)
		}
	}
	own.check(m)
	for bit := optBlock; bit <= optLast; bit <<= 1 {
		m.check(!own.has(bit&^allowed), "%s: this kind of lock cannot honour it", optionNames[bit])
	}
	c := own.over(defaults, allowed)
	s := lockSettings{
		kind: k, block: c.has(optBlock), blockTimeout: c.blockTimeout, fair: c.has(optFair),
		maxHold: c.maxHold, minHold: c.minHold, owner: c.owner, label: escape(c.label),
		fencing: c.has(optFencing), queueLimit: c.queueLimit,
		replicas: c.replicas, replicaTimeout: c.replicaTime,
	}
	s.lease, s.watched = c.lease()
	s.poll = min(defaultPollInterval, s.lease/4)
	if c.has(optPollInterval) {
		m.check(!own.has(optPollInterval) || c.pollInterval <= s.lease/4, "WithPollInterval: %v is above a quarter of the lease of %v", c.pollInterval, s.lease)
		s.poll = min(c.pollInterval, s.lease/4)
	}
	m.check(!own.has(optReplicas) || s.replicaTimeout <= s.lease/4, "WithReplicas: %v is above a quarter of the lease of %v", s.replicaTimeout, s.lease)
	s.replicaTimeout = min(s.replicaTimeout, s.lease/4).Truncate(time.Millisecond)
	m.check(own.given&(optMaxHold|optMinHold) == optMaxHold|optMinHold || s.maxHold == 0 || s.maxHold >= s.minHold, "WithMaxHold: %v is below the minimum hold of %v", s.maxHold, s.minHold)
	if allowed&optMaxLease != 0 {
		s.maxLease = defaultLease
		if c.has(optMaxLease) {
			s.maxLease = c.maxLease
		}
		m.check(s.asked() <= s.maxLease, "lease of %v: above the largest one allowed, %v; see WithMaxLease", s.asked(), s.maxLease)
	}
	return s
}

// over returns c where it says something and the defaults elsewhere. A lease of either sort replaces one of
// the other, and WithBlock by itself a block timeout.
func (c lockConfig) over(defaults lockConfig, allowed option) lockConfig {
	usable := defaults.given & allowed &^ c.given
	if c.has(optExpiry | optWatchdog) {
		usable &^= optExpiry | optWatchdog
	}
	if c.has(optBlock) {
		usable &^= optBlockTimeout
	}
	take := func(o option, to *time.Duration, from time.Duration) {
		if usable&o != 0 {
			*to = from
		}
	}
	take(optBlockTimeout, &c.blockTimeout, defaults.blockTimeout)
	take(optPollInterval, &c.pollInterval, defaults.pollInterval)
	take(optExpiry, &c.expiry, defaults.expiry)
	take(optWatchdog, &c.watchdog, defaults.watchdog)
	take(optMaxHold, &c.maxHold, defaults.maxHold)
	take(optMinHold, &c.minHold, defaults.minHold)
	take(optMaxLease, &c.maxLease, defaults.maxLease)
	if usable&optOwner != 0 {
		c.owner = defaults.owner
	}
	if usable&optLabel != 0 {
		c.label = defaults.label
	}
	if usable&optQueueLimit != 0 {
		c.queueLimit = defaults.queueLimit
	}
	if usable&optReplicas != 0 {
		c.replicas, c.replicaTime = defaults.replicas, defaults.replicaTime
	}
	c.given |= usable
	return c
}

func (c *lockConfig) lease() (length time.Duration, watched bool) {
	switch {
	case c.has(optExpiry):
		return c.expiry, false
	case c.has(optWatchdog):
		return c.watchdog, true
	}
	return defaultLease, true
}

// escape makes s safe to stand between bars in a value.
func escape(s string) string { return strings.ReplaceAll(url.QueryEscape(s), "+", "%20") }

// drawing is the script that takes a lock with these settings: with a fencing token or without.
func (s *lockSettings) drawing(acquire *script.Script) *script.Script {
	if s.fencing {
		return acquire.Fenced
	}
	return acquire
}
