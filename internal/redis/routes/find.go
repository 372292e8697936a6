package routes

import (
	"context"
	"errors"
	"time"

	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/redis/driver"
)

// nodeOf returns the node of a request, within the limit for connecting. It
// waits for a master that the topology expects.
func (r *Router) nodeOf(ctx context.Context, limit driver.Limits, q driver.Request) (*node, error) {
	if ctx.Err() != nil {
		return nil, driver.ErrAbandoned
	}
	n, err := r.find(ctx, limit, q.Key(), r.expectMaster)
	if err != nil && ctx.Err() != nil && r.life.Err() == nil {
		return nil, driver.ErrAbandoned
	}
	return n, err
}

// Home returns the node of a key; see [driver.Driver].
func (r *Router) Home(ctx context.Context, key string) (driver.Node, error) {
	n, err := r.find(ctx, driver.Limits{}, key, r.topology.Master)
	if err != nil {
		return nil, err // not a nil *node
	}
	return n, nil
}

// expectMaster asks the topology for the master of a key, again after each look
// while it has none.
func (r *Router) expectMaster(ctx context.Context, key string) (string, error) {
	for {
		address, err := r.topology.Master(ctx, key)
		if r.topology.Refresh == nil || !errors.Is(err, driver.ErrNoMaster) {
			return address, err
		}
		_ = r.topology.Refresh(ctx) // if it fails, the old error says more
		if ctx.Err() != nil {
			return "", err
		}
	}
}

// masterOf returns the address of the master of a key.
type masterOf func(ctx context.Context, key string) (address string, err error)

// find returns the node of a key. It asks for one that is not in memory.
func (r *Router) find(ctx context.Context, limit driver.Limits, key string, master masterOf) (*node, error) {
	address, known := r.cached(key)
	var err error
	if !known {
		ctx, cancel := r.bound(ctx, limit)
		defer cancel()
		address, err = master(ctx, key)
	}
	switch {
	case r.life.Err() != nil:
		return nil, errs.ErrClosed
	case err == nil && address == "":
		err = driver.ErrNoAddress
	}
	if err != nil {
		return nil, driver.Unrouted(err)
	}
	return r.remember(key, address)
}

// cached returns the address of the master of a key, if the topology has it in
// memory.
func (r *Router) cached(key string) (address string, known bool) {
	if r.topology.Cached == nil {
		return "", false
	}
	return r.topology.Cached(key)
}

// bound limits a call of the topology by the limit for connecting and by the
// dial timeout. It ends with the router, too.
func (r *Router) bound(ctx context.Context, limit driver.Limits) (context.Context, func()) {
	ctx, cancel := context.WithTimeout(ctx, driver.Below(r.config.DialTimeout, limit.At(time.Now()).Connect))
	stop := context.AfterFunc(r.life, cancel)
	return ctx, func() {
		stop()
		cancel()
	}
}
