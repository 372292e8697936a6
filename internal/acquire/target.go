package acquire

import (
	"context"
	"fmt"
	"time"

	"github.com/relock-go/relock/internal/background"
	"github.com/relock-go/relock/internal/carried"
	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/script"
)

// Target is one lock: its key, its settings and the manager of its client.
type Target struct {
	Manager  *lease.Manager // of a RedLock, that of the first node
	Key      string         // the name that the user gave; set by Use
	Settings lockspec.Spec

	redisKey string
}

// Use makes it the lock of a client with this name.
func (t *Target) Use(m *lease.Manager, key string) {
	t.Manager, t.Key, t.redisKey = m, key, m.RedisKey(key)
}

// RedisKey returns the key of the lock in Redis.
func (t *Target) RedisKey() string { return t.redisKey }

// Ready returns an error if a call cannot begin.
func (t *Target) Ready(ctx context.Context) error {
	switch {
	case t.Manager.Life.Err() != nil:
		return errs.ErrClosed
	case ctx.Err() != nil:
		return errs.EndOf(ctx, nil)
	}
	return nil
}

// Owner returns the caller as the owner of locks of this name.
func (t *Target) Owner(ctx context.Context) (lease.OwnerKey, error) {
	family := t.Settings.Kind.Family
	id, err := t.ownerID(ctx, family)
	return lease.OwnerKey{Lock: t.Key, ID: id, Family: family}, err
}

// ownerID returns the ID of the owner that calls. The first of these counts:
// the owner of the hold in ctx, the owner in ctx, the goroutine.
func (t *Target) ownerID(ctx context.Context, of lockspec.Family) (string, error) {
	if h := t.Manager.Held(ctx, t.Key, of); h != nil {
		return h.Owner(), nil
	}
	if id, ok := carried.Owner(ctx); ok {
		if id == "" || len(id) > lockspec.MaxOwner {
			return "", fmt.Errorf("%w: ContextWithOwner: id of %d bytes is not 1 to %d",
				errs.ErrInvalid, len(id), lockspec.MaxOwner)
		}
		return t.Manager.Identity.Named(id), nil
	}
	return t.Manager.Identity.Goroutine(), nil
}

// Cleanup returns the release of a hold that requests without a grant may have
// made, or may still make. The grant would have been the first change of the
// levels, so the release is the second one.
func Cleanup(key string, p lease.Protocol, s *lockspec.Spec, d script.Indeterminate) *background.Release {
	release := p.Release(lease.Levels{}, 2, 0)
	return background.NewRelease(key, s.Expiry(), s.Lease, d, func(time.Time) script.Call { return release })
}

// errSelfWait returns the error of a call that would wait for its own hold.
func (t *Target) errSelfWait() error {
	remedy := "use a ReentrantLock"
	if t.Settings.Kind.Nests {
		remedy = "it has other options, or is of another kind"
	}
	return fmt.Errorf("%w: context: carries the hold that Lock would wait for; %s", errs.ErrInvalid, remedy)
}
