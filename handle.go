package relock

import (
	"context"
	"fmt"
	"strconv"

	"github.com/relock-go/relock/internal/acquire"
	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/lockspec"
)

// locking is how a kind acquires and releases.
type locking interface {
	// Take acquires the lock. For Lock and Do, lasting is true: the hold is that
	// of the object or the owner until Release.
	Take(ctx context.Context, block, lasting bool) (*lease.Hold, error)
	// Release ends what a lasting Take of the caller acquired last.
	Release(ctx context.Context) error
	// Unlock ends what a lasting Take returned.
	Unlock(h *lease.Hold) error
}

// newBase returns the lock of this name, but for how it is acquired.
func newBase(key string, client *Client, opts []LockOption, k *lockspec.Kind) base {
	var m lockspec.Problems
	lockspec.CheckKey(&m, key)
	return newBaseWith(m, key, client, opts, k)
}

// newBaseWith is newBase where the mistakes in the key are known.
func newBaseWith(m lockspec.Problems, key string, client *Client, opts []LockOption, k *lockspec.Kind) base {
	b := base{client: client, target: acquire.Target{Key: key}}
	var defaults lockspec.Options
	if client == nil || client.engine == nil {
		m.Check(false, "client: was not made by NewClient")
	} else {
		defaults, b.target.Manager = client.config.locks, client.engine
	}
	b.target.Settings = lockspec.Resolve(defaults, applied(opts, &m), k, &m)
	if err := m.Err(); err != nil {
		b.how = invalid{err}
	}
	return b
}

// applied returns what a lock's own options say.
func applied(opts []LockOption, m *lockspec.Problems) (own lockspec.Options) {
	for i, opt := range opts {
		if m.Check(opt != nil, "opts[%d]: LockOption is nil", i); opt != nil {
			opt.applyLock(&own)
		}
	}
	return own
}

// use sets how the lock is acquired, unless there are mistakes in it.
func (b *base) use(how locking) {
	if b.how == nil {
		b.how = how
	}
}

// invalid is a lock with mistakes in key and options, which every call
// reports.
type invalid struct{ why error }

// Take returns the mistakes.
func (m invalid) Take(context.Context, bool, bool) (*lease.Hold, error) { return nil, m.why }

// Release returns the mistakes.
func (m invalid) Release(context.Context) error { return m.why }

// Unlock returns the mistakes.
func (m invalid) Unlock(*lease.Hold) error { return m.why }

// made returns what is wrong with the lock itself.
func (b *base) made() error {
	if b.how == nil {
		return errNotMade
	}
	if m, ok := b.how.(invalid); ok {
		return m.why
	}
	return nil
}

var errNotMade = fmt.Errorf("%w: lock: was not made by its constructor", ErrInvalid)

// ready returns why no call with this context can begin, whether the client was
// closed or not.
func (b *base) ready(ctx context.Context) error {
	if err := b.made(); err != nil {
		return err
	}
	if ctx == nil {
		return errNilContext
	}
	return nil
}

// String names the lock.
func (b *base) String() string { return "lock " + strconv.Quote(b.target.Key) }
