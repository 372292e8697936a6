package main

import (
	"context"
	"errors"
	"time"

	"github.com/relock-go/relock"
)

const (
	fresh   = time.Minute     // how long a value is good
	kept    = 24 * time.Hour  // how long it is served while nobody can load
	patient = 1 * time.Second // how long a caller with an old value waits for a new one
)

// cache keeps values in Redis: one key with the value, and one that ends when
// the value is stale.
type cache struct {
	client *relock.Client
	load   func(ctx context.Context) (string, error)
}

// get returns the value. On a miss, one caller of all processes loads it. The
// others wait for it. A caller with a stale value waits for a second at most,
// and then returns that.
func (c *cache) get(ctx context.Context, key string) (value string, err error) {
	value, isFresh, found, err := c.read(ctx, key)
	if err != nil || isFresh {
		return value, err
	}
	opts := []relock.LockOption{relock.WithBlock()}
	if found {
		opts = []relock.LockOption{relock.WithBlockTimeout(patient)}
	}
	loaded := ""
	err = relock.NewRedisLock("cache/"+key, c.client, opts...).Do(ctx, func(ctx context.Context) (err error) {
		loaded, err = c.refresh(ctx, key)
		return err
	})
	if found && ctx.Err() == nil && errors.Is(err, relock.ErrLockAcquiredByOthers) {
		return value, nil // stale
	}
	return loaded, err
}

// refresh runs under the lock. It reads again, as another caller may have
// loaded the value meanwhile. A load whose lock was lost is not stored.
func (c *cache) refresh(ctx context.Context, key string) (string, error) {
	value, isFresh, _, err := c.read(ctx, key)
	if err != nil || isFresh {
		return value, err
	}
	if value, err = c.load(ctx); err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return "", err
	}
	return value, c.store(ctx, key, value)
}

// The two keys have one tag, so that a Cluster has them at one server.
func keys(key string) []string {
	return []string{"{cache/" + key + "}value", "{cache/" + key + "}fresh"}
}

var (
	get = relock.NewScript(`return redis.call('MGET', KEYS[1], KEYS[2])`)
	set = relock.NewScript(`redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
		return redis.call('SET', KEYS[2], 1, 'PX', ARGV[3])`)
)

func (c *cache) read(ctx context.Context, key string) (value string, isFresh, found bool, err error) {
	reply, err := c.client.Eval(ctx, get, keys(key))
	if err != nil {
		return "", false, false, err
	}
	pair := reply.([]any) //nolint:forcetypeassert // MGET has no other reply
	value, found = pair[0].(string)
	return value, found && pair[1] != nil, found, nil
}

func (c *cache) store(ctx context.Context, key, value string) error {
	_, err := c.client.Eval(ctx, set, keys(key), value, kept.Milliseconds(), fresh.Milliseconds())
	return err
}
