package etcdlock

import (
	"context"
	"testing"
	"time"
)

// A long lease does not make its renewals wait longer than other requests do.
func TestRenewLimit(t *testing.T) {
	for ttl, want := range map[time.Duration]time.Duration{
		100 * time.Millisecond: 100 * time.Millisecond, 6 * time.Second: time.Second,
		24 * time.Hour: firstLimit,
	} {
		s := &session{ttl: ttl, sessions: &sessions{server: &server{pace: newPace(ttl / 3)}}}
		if got := s.renewLimit(); got != want {
			t.Errorf("%v for a lease of %v", got, ttl)
		}
	}
}

// A long TTL does not make a wait trust a silent watch for longer.
func TestRecheck(t *testing.T) {
	for ttl, want := range map[time.Duration]time.Duration{
		time.Second: 2 * time.Second, time.Hour: maxRecheck, maxTTL: maxRecheck,
	} {
		if got := (&server{config: config{ttl: ttl}}).recheck(); got != want {
			t.Errorf("%v for a TTL of %v", got, ttl)
		}
	}
}

// The limit of a request doubles if all were late, once for those that were
// sent together. An answer lowers it.
func TestPace(t *testing.T) {
	p := newPace(10 * time.Second)
	late := func(ago time.Duration) { p.note(time.Now().Add(-ago), ago, context.DeadlineExceeded) }
	want := func(limit time.Duration, after string) {
		t.Helper()
		if got := p.limit().Round(time.Second); got != limit {
			t.Errorf("%v after %s", got, after)
		}
	}
	want(firstLimit, "nothing")
	late(firstLimit)
	want(2*firstLimit, "a late request")
	late(firstLimit)
	want(2*firstLimit, "another one of the same moment")
	p.changed = time.Time{}
	late(firstLimit)
	want(2*firstLimit, "a late request that had much less time")
	late(2 * firstLimit)
	want(10*time.Second, "a later one")
	p.note(time.Now().Add(-2*time.Second), 10*time.Second, nil)
	want(8*time.Second, "an answer")
	p.note(time.Now(), 8*time.Second, nil)
	want(4*time.Second, "a faster one")
	late(firstLimit)
	want(4*time.Second, "a request that was sent before an answer")
}
