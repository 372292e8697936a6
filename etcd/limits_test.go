package etcdlock

import (
	"testing"
	"time"
)

// A long lease does not make its renewals wait longer than other requests do.
func TestRenewLimit(t *testing.T) {
	for ttl, want := range map[time.Duration]time.Duration{
		100 * time.Millisecond: 100 * time.Millisecond, 6 * time.Second: time.Second, 24 * time.Hour: maxLimit,
	} {
		if got := (&session{ttl: ttl}).renewLimit(); got != want {
			t.Errorf("%v for a lease of %v", got, ttl)
		}
	}
}

// A long TTL does not make a wait trust a silent watch for longer.
func TestRecheck(t *testing.T) {
	for ttl, want := range map[time.Duration]time.Duration{time.Second: 2 * time.Second, time.Hour: maxRecheck, maxTTL: maxRecheck} {
		if got := (&server{config: config{ttl: ttl}}).recheck(); got != want {
			t.Errorf("%v for a TTL of %v", got, ttl)
		}
	}
}
