// Package goroutines runs the goroutines of a client. It starts them until the
// client is closed, and then waits for them.
package goroutines

import (
	"sync"
	"time"
)

// Group counts goroutines, so that their owner can wait for them. The zero
// value is ready for use.
type Group struct {
	mu     sync.Mutex
	closed bool
	group  sync.WaitGroup
}

// Start runs f on a goroutine, and reports whether it does. After Wait or
// WaitFor it does not.
func (g *Group) Start(f func()) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return false
	}
	g.group.Go(f)
	return true
}

// Wait refuses new goroutines, and waits for the running ones.
func (g *Group) Wait() {
	g.close()
	g.group.Wait()
}

// WaitFor is Wait for up to limit. If the limit ends first, one goroutine keeps
// waiting for the others.
func (g *Group) WaitFor(limit time.Duration) {
	g.close()
	done := make(chan struct{})
	go func() {
		defer close(done)
		g.group.Wait()
	}()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	}
}

func (g *Group) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
}
