package relock

import (
	"sync"
	"time"
)

// tasks counts goroutines, so that close can wait for them.
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

// closeWait is how long close waits for goroutines. They end at once when their connections are cut; only
// code of the user's (a Dial without a context in a pool of their own) can keep one longer.
const closeWait = 40 * time.Millisecond

func (t *tasks) wait() {
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
	done := make(chan struct{})
	go func() {
		defer close(done)
		t.group.Wait()
	}()
	timer := time.NewTimer(closeWait)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	}
}
