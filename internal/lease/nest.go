package lease

import (
	"context"
	"time"

	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/lockspec"
)

// Nest adds a level to the hold h of a plain lock, for a nested call. It
// sends nothing: the server does not count these levels, and the last Unlock
// releases the key. It fails if the hold was lost.
//
// It returns neither a hold nor an error if h cannot have the level: it is nil,
// was unlocked meanwhile, belongs to a group, or has other settings.
func Nest(ctx context.Context, h *Hold, s *lockspec.Spec) (*Hold, error) {
	if h == nil || h.grant.single() == nil || !h.settings.SameHold(s) {
		return nil, nil
	}
	_ = h.Err() // the clock decides, not whether a timer has fired
	l := h.grant.single()
	l.Mu.Lock()
	defer l.Mu.Unlock()
	switch over := h.ends.Err(); {
	case h.unlocked:
		return nil, nil
	case over != nil:
		return nil, errs.ForLevel(over)
	}
	now := time.Now()
	return l.add(ctx, now, now, s), nil
}
