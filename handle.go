package relock

import (
	"context"
	"fmt"
	"strconv"

	"github.com/relock-go/relock/internal/lockspec"
)

// handle is what every kind of lock is made of.
type handle struct {
	key      string
	client   *Client
	settings lockspec.Spec
	mistake  error // in key and options; reported by every call
}

func newHandle(key string, client *Client, opts []LockOption, k *lockspec.Kind) handle {
	var m lockspec.Problems
	lockspec.CheckKey(&m, key)
	return newHandleWith(m, key, client, opts, k)
}

// newHandleWith is newHandle where the mistakes in the key are known.
func newHandleWith(m lockspec.Problems, key string, client *Client, opts []LockOption, k *lockspec.Kind) handle {
	h := handle{key: key, client: client}
	var defaults lockspec.Options
	if client == nil || client.engine == nil {
		m.Check(false, "client: was not made by NewClient")
	} else {
		defaults = client.config.locks
	}
	h.settings = lockspec.Resolve(defaults, applied(opts, &m), k, &m)
	h.mistake = m.Err()
	return h
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

// made says what is wrong with the lock itself.
func (h *handle) made() error {
	if h.client == nil && h.mistake == nil {
		return errNotMade
	}
	return h.mistake
}

func (h *handle) validate() error { return wrap("validate", h.key, h.made()) }

var errNotMade = fmt.Errorf("%w: lock: was not made by its constructor", ErrInvalid)

// ready says why a call cannot begin.
func (h *handle) ready(ctx context.Context) error { return h.client.ready(ctx, h.made()) }

// mistaken says why a call that needs no connection cannot begin; it may on a client that was closed, and with a
// context that has ended.
func (h *handle) mistaken(ctx context.Context) error {
	if err := h.made(); err != nil {
		return err
	}
	if ctx == nil {
		return errNilContext
	}
	return nil
}

// redisKey is where the lock is in Redis.
func (h *handle) redisKey() string { return h.client.engine.RedisKey(h.key) }

// String names the lock.
func (h *handle) String() string { return "lock " + strconv.Quote(h.key) }
