package cluster

import (
	"time"

	"github.com/relock-go/relock/internal/redis/driver"
)

// A failed master leaves the table before its successor is in it. Meanwhile its
// slots have no master. Such a table is incomplete: loads go on, and requests
// wait for them. A slot may have no master for good, so both end after a time.

// noteHoles notes since when slots have no master. before is the table before
// this one, or nil.
func (t *table) noteHoles(before *table, now time.Time) {
	hole, known := false, before != nil
	for slot, at := range t.of {
		if at == 0 {
			hole, known = true, known && before.of[slot] == 0
		}
	}
	switch {
	case hole && known:
		t.holeAt = before.holeAt
	case hole:
		t.holeAt = now
	}
}

// hasNewHole reports whether slots have no master, and may get one soon. t may
// be nil.
func (t *table) hasNewHole() bool {
	return t != nil && !t.holeAt.IsZero() && time.Since(t.holeAt) < missingFor
}

// kindOfHole returns what the error of a slot without a master matches.
func (t *table) kindOfHole() error {
	if t.hasNewHole() {
		return driver.ErrNoMaster
	}
	return driver.ErrTimeout
}
