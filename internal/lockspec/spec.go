package lockspec

import (
	"net/url"
	"time"

	"github.com/relock-go/relock/internal/redis/driver"
	"github.com/relock-go/relock/internal/script"
)

// Spec has the settings of a lock: its own options, and the defaults of its
// client. It never changes once its lock is made.
type Spec struct {
	Block        bool
	Watched      bool
	Fair         bool
	Fencing      bool
	QueueLimit   int32 // 0: no limit; at this position it takes no extra memory
	Kind         *Kind
	BlockTimeout time.Duration // 0: until the context is cancelled
	Poll         time.Duration
	Lease        time.Duration
	MaxHold      time.Duration // 0: no limit
	MinHold      time.Duration // 0: none
	Label        string        // escaped
	MaxLease     time.Duration // the largest lease that is allowed; 0: no limit
	Permits      int32         // of a semaphore; otherwise 0

	Replicas       int32 // 0: requests wait for none
	ReplicaTimeout time.Duration
}

// Drift returns how much earlier than a lease its validity ends. It allows for
// clocks of different speeds and for late timers.
func Drift(lease time.Duration) time.Duration { return lease/100 + 2*time.Millisecond }

// ClaimLease returns how long a lock that was handed off stays reserved for its
// new holder. It is longer than the period, so that a waiter that missed the
// message learns of the hand-off by its poll.
func (s *Spec) ClaimLease() time.Duration {
	return min(s.Lease, max(1250*time.Millisecond, 4*s.Poll)).Truncate(time.Millisecond)
}

// GrantedByMessage reports whether the message of a hand-off may be the grant.
// Tokens, replicas and a minimum hold need the answer of a script.
func (s *Spec) GrantedByMessage() bool {
	return s.Kind.Passes && !s.Fencing && s.Replicas == 0 && s.MinHold == 0
}

// Period returns how often a waiting client sends a heartbeat.
func (s *Spec) Period() time.Duration {
	return max(s.Poll, min(time.Second, s.Lease/3, s.ClaimLease()*4/5), time.Millisecond)
}

// Expiry returns the expiry that an acquire requests. The key stays for the
// minimum hold even if no release succeeds before the lease expires. Validity
// depends on the lease only.
func (s *Spec) Expiry() time.Duration { return max(s.Lease, s.MinHold) }

// KindName returns the name of the kind, or "" for a lock that was not made by
// its constructor.
func (s *Spec) KindName() string {
	if s.Kind == nil {
		return ""
	}
	return s.Kind.name
}

// LabelText returns the label as the user gave it.
func (s *Spec) LabelText() string {
	text, _ := url.QueryUnescape(s.Label) // never fails for what escape returned
	return text
}

// Resolve checks a lock's own options and merges them with the defaults. Of the
// defaults it takes only what the kind honours.
func Resolve(defaults, own Options, k *Kind, m *Problems) Spec {
	allowed := k.options
	own.Check(m)
	k.refuse(own.Given&^allowed, m)
	c := own.merge(defaults, allowed)
	s := Spec{
		Kind: k, Block: c.has(OptBlock), BlockTimeout: c.BlockTimeout, Fair: c.has(OptFair),
		MaxHold: c.MaxHold, MinHold: c.MinHold, Label: Escape(c.Label),
		Fencing: c.has(OptFencing), QueueLimit: int32(min(max(c.QueueLimit, 0), maxQueueLimit)),
		Replicas: int32(min(max(c.Replicas, 0), maxReplicas)), ReplicaTimeout: c.ReplicaTimeout,
	}
	s.Lease, s.Watched = c.lease()
	s.Poll = min(DefaultPollInterval, s.Lease/4)
	if c.has(OptPollInterval) {
		m.Check(!own.has(OptPollInterval) || c.PollInterval <= s.Lease/4,
			"WithPollInterval: %v is above a quarter of the lease of %v", c.PollInterval, s.Lease)
		s.Poll = min(c.PollInterval, s.Lease/4)
	}
	m.Check(!own.has(OptReplicas) || s.ReplicaTimeout <= s.Lease/4,
		"WithReplicas: %v is above a quarter of the lease of %v", s.ReplicaTimeout, s.Lease)
	s.ReplicaTimeout = min(s.ReplicaTimeout, s.Lease/4).Truncate(time.Millisecond)
	m.Check(own.Given&(OptMaxHold|OptMinHold) == OptMaxHold|OptMinHold || s.MaxHold == 0 || s.MaxHold >= s.MinHold,
		"WithMaxHold: %v is below the minimum hold of %v", s.MaxHold, s.MinHold)
	if allowed&OptMaxLease != 0 {
		s.MaxLease = DefaultLease
		if c.has(OptMaxLease) {
			s.MaxLease = c.MaxLease
		}
		m.Check(s.Expiry() <= s.MaxLease, "lease: %v is above the largest allowed, %v; see WithMaxLease",
			s.Expiry(), s.MaxLease)
	}
	return s
}

// refuse adds a problem for each of the options. A lock is often made for one
// call, so this costs nothing if there are none.
func (k *Kind) refuse(options Option, m *Problems) {
	for bit := OptBlock; options != 0; bit <<= 1 {
		if options&bit != 0 {
			m.Check(false, "%s: is not supported by %s", optionNames[bit], k.maker)
		}
		options &^= bit
	}
}

// Split returns the settings of a group, which is not renewed itself, and those
// of its members, which have no maximum hold.
func (s *Spec) Split() (whole, part Spec) {
	whole, part = *s, *s
	whole.Watched, whole.MinHold = false, 0
	part.MaxHold = 0
	return whole, part
}

// SameHold reports whether holds with s and with other are the same to Redis
// and to their user.
func (s *Spec) SameHold(other *Spec) bool {
	return s == other || s.Kind.Transfers == other.Kind.Transfers && s.Lease == other.Lease &&
		s.Watched == other.Watched && s.MinHold == other.MinHold &&
		s.MaxHold == other.MaxHold && s.Label == other.Label && s.Poll == other.Poll && s.Fencing == other.Fencing &&
		s.Replicas == other.Replicas && s.ReplicaTimeout == other.ReplicaTimeout
}

// RightOfWay returns how long a waiting MultiLock keeps keys at most. It covers
// a lost notification and the claim after it. It also limits how long a caller
// waits that holds one of the keys and wants a kept one.
func (s *Spec) RightOfWay() time.Duration {
	return max(MinLease, min(2*s.ClaimLease(), s.Lease/2))
}

// Ack returns the replicas that a request waits for, or nil.
func (s *Spec) Ack() *driver.Ack {
	if s.Replicas == 0 {
		return nil
	}
	return &driver.Ack{Replicas: int(s.Replicas), Timeout: s.ReplicaTimeout}
}

// Variant returns the variant of acquire for these settings: with a fencing
// token or without.
func (s *Spec) Variant(acquire *script.Script) *script.Script {
	if s.Fencing {
		return acquire.Fenced
	}
	return acquire
}
