package etcdlock

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"
)

// tasks counts goroutines, so that Close can wait for them.
type tasks struct {
	mu     sync.Mutex
	closed bool
	group  sync.WaitGroup
}

// start runs f on a goroutine, unless wait was called.
func (t *tasks) start(f func()) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return false
	}
	t.group.Go(f)
	return true
}

func (t *tasks) wait() {
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
	t.group.Wait()
}

// sleep pauses for d, unless ctx ends before.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// pauses grow from attempt to attempt while a server answers with errors or not at all.
type pauses struct{ last time.Duration }

const (
	firstPause = 10 * time.Millisecond
	maxPause   = 800 * time.Millisecond
)

func (p *pauses) next() time.Duration {
	p.last = max(firstPause, min(2*p.last, maxPause))
	return p.last + rand.N(p.last/5)
}
