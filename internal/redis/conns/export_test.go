package conns

import (
	"context"
	"sync"

	"github.com/gomodule/redigo/redis"
)

// Together runs f n times at the same time, and waits for the end.
func Together(n int, f func(i int)) {
	var group sync.WaitGroup
	for i := range n {
		group.Go(func() { f(i) })
	}
	group.Wait()
}

// DialWrapped returns a Dial of the user's, which wraps its connections.
func DialWrapped(network, address string, wrap func(redis.ConnWithTimeout) redis.Conn) func() (redis.Conn, error) {
	return func() (redis.Conn, error) {
		conn, err := redis.Dial(network, address)
		if err != nil {
			return nil, err
		}
		return wrap(conn.(redis.ConnWithTimeout)), nil
	}
}

// Crowd is how many calls of Send have a connection each.
const Crowd = crowd

// SetApart changes how many calls of Send have a connection each, and returns
// how many had one before.
func (d *Pool) SetApart(n int64) (before int64) {
	before, d.apart = d.apart, n
	return before
}

// InUse returns how many connections callers have. They are only counted if
// callers wait for a free one.
func (d *Pool) InUse() int { return len(d.slots) }

// Sending returns how many calls of Send are under way.
func (d *Pool) Sending() int64 { return d.busy.Load() }

// Connect takes a connection from the pool, as calls do.
func (d *Pool) Connect(ctx context.Context) (redis.Conn, error) { return d.connect(ctx, 0) }

// PutBack returns a connection to the pool.
func (d *Pool) PutBack(conn redis.Conn) { d.putBack(conn) }

// Open returns how many connections are open in the pool, without those beside
// it.
func (d *Pool) Open() int { return d.Redis.ActiveCount() }

// Idle returns how many of them are idle.
func (d *Pool) Idle() int { return d.Redis.IdleCount() }
