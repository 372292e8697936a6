package lockspec

import "time"

// Option is a set of LockOptions, one bit for each.
type Option uint

// The options of a lock.
const (
	OptBlock Option = 1 << iota
	OptBlockTimeout
	OptPollInterval
	OptExpiry
	OptWatchdog
	OptMaxHold
	OptMinHold
	OptLabel
	OptFair
	OptFencing
	OptQueueLimit
	OptReplicas
	OptMaxLease
)

// optionNames has the name of the function that makes each option.
var optionNames = map[Option]string{
	OptBlock:        "WithBlock",
	OptBlockTimeout: "WithBlockTimeout",
	OptPollInterval: "WithPollInterval",
	OptExpiry:       "WithExpiry",
	OptWatchdog:     "WithWatchdog",
	OptMaxHold:      "WithMaxHold",
	OptMinHold:      "WithMinHold",
	OptLabel:        "WithLabel",
	OptFair:         "WithFair",
	OptFencing:      "WithFencing",
	OptQueueLimit:   "WithQueueLimit",
	OptReplicas:     "WithReplicas",
	OptMaxLease:     "WithMaxLease",
}

// Defaults and limits.
const (
	DefaultLease        = 30 * time.Second
	DefaultPollInterval = 50 * time.Millisecond

	MinLease = 10 * time.Millisecond
	MaxLease = 10 * 365 * 24 * time.Hour
	minPoll  = time.Millisecond

	MaxLabel = 256
	MaxOwner = 256

	maxQueueLimit = 1_000_000
	maxReplicas   = 1_000_000
)

// Options has the values of a lock's options. Given has the options that were
// given.
type Options struct {
	Given          Option
	BlockTimeout   time.Duration
	PollInterval   time.Duration
	Expiry         time.Duration
	Watchdog       time.Duration
	MaxHold        time.Duration
	MinHold        time.Duration
	Label          string
	QueueLimit     int
	Replicas       int
	ReplicaTimeout time.Duration
	MaxLease       time.Duration
}

// Applier is an option that sets its value in Options. All lock options of
// package relock are Appliers. So package relocktest can read them.
type Applier interface{ Apply(*Options) }

// has reports whether any of the options was given.
func (c *Options) has(o Option) bool { return c.Given&o != 0 }

// Check adds the validation errors of the options, without regard to a kind or
// to defaults.
func (c *Options) Check(m *Problems) {
	m.Check(!c.has(OptBlockTimeout) || c.BlockTimeout > 0, "WithBlockTimeout: %v is not above 0", c.BlockTimeout)
	m.Check(!c.has(OptPollInterval) || c.PollInterval >= minPoll, "WithPollInterval: %v is below %v",
		c.PollInterval, minPoll)
	m.Check(!c.has(OptMaxHold) || c.MaxHold > 0, "WithMaxHold: %v is not above 0", c.MaxHold)
	m.Check(!c.has(OptExpiry) || !c.has(OptWatchdog), "WithExpiry and WithWatchdog: a lease is either fixed or renewed")
	c.checkLease(m, OptExpiry, c.Expiry)
	c.checkLease(m, OptWatchdog, c.Watchdog)
	c.checkLease(m, OptMinHold, c.MinHold)
	c.checkLease(m, OptMaxLease, c.MaxLease)
	m.Check(!c.has(OptMaxHold) || !c.has(OptMinHold) || c.MaxHold >= c.MinHold,
		"WithMaxHold: %v is below the minimum hold of %v", c.MaxHold, c.MinHold)
	m.Check(!c.has(OptQueueLimit) || (c.QueueLimit >= 1 && c.QueueLimit <= maxQueueLimit),
		"WithQueueLimit: %d is not 1 to %d", c.QueueLimit, maxQueueLimit)
	m.Check(!c.has(OptReplicas) || (c.Replicas >= 1 && c.Replicas <= maxReplicas),
		"WithReplicas: %d replicas are not 1 to %d", c.Replicas, maxReplicas)
	c.checkLease(m, OptReplicas, c.ReplicaTimeout)
	label := len(Escape(c.Label))
	m.Check(label <= MaxLabel, "WithLabel: %d bytes when escaped are above %d", label, MaxLabel)
}

// checkLease adds an error for a duration that Redis would not keep, since it
// counts whole milliseconds.
func (c *Options) checkLease(m *Problems, o Option, d time.Duration) {
	if c.has(o) {
		m.CheckMillis(optionNames[o], d)
	}
}

// merge returns c, with the defaults for the allowed options that c does not
// give. A lease of either sort replaces a default of the other sort. WithBlock
// without a block timeout replaces a default block timeout.
func (c Options) merge(defaults Options, allowed Option) Options {
	usable := defaults.Given & allowed &^ c.Given
	if c.has(OptExpiry | OptWatchdog) {
		usable &^= OptExpiry | OptWatchdog
	}
	if c.has(OptBlock) {
		usable &^= OptBlockTimeout
	}
	take := func(o Option, to *time.Duration, from time.Duration) {
		if usable&o != 0 {
			*to = from
		}
	}
	take(OptBlockTimeout, &c.BlockTimeout, defaults.BlockTimeout)
	take(OptPollInterval, &c.PollInterval, defaults.PollInterval)
	take(OptExpiry, &c.Expiry, defaults.Expiry)
	take(OptWatchdog, &c.Watchdog, defaults.Watchdog)
	take(OptMaxHold, &c.MaxHold, defaults.MaxHold)
	take(OptMinHold, &c.MinHold, defaults.MinHold)
	take(OptMaxLease, &c.MaxLease, defaults.MaxLease)
	if usable&OptLabel != 0 {
		c.Label = defaults.Label
	}
	if usable&OptQueueLimit != 0 {
		c.QueueLimit = defaults.QueueLimit
	}
	if usable&OptReplicas != 0 {
		c.Replicas, c.ReplicaTimeout = defaults.Replicas, defaults.ReplicaTimeout
	}
	c.Given |= usable
	return c
}

func (c *Options) lease() (length time.Duration, watched bool) {
	switch {
	case c.has(OptExpiry):
		return c.Expiry, false
	case c.has(OptWatchdog):
		return c.Watchdog, true
	}
	return DefaultLease, true
}
