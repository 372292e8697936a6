package driver

import (
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

// RouteIdle is when the route of a node is checked.
const RouteIdle = routeIdle
