package main

import (
	"fmt"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
)

// The clock of an embedded server moves every tick, by maxStep at most. A step also takes time from a key that was set just before it, so a
// long one would end that key too soon; after a pause the clock rather lags behind.
const (
	tick    = 2 * time.Millisecond
	maxStep = 2 * tick
)

// embedded is a server inside this process. Its clock stands still by itself, so that no key would ever expire; here it goes as real time does.
type embedded struct {
	server *miniredis.Miniredis
	clock  sync.WaitGroup
	done   chan struct{}
}

func startEmbedded() (*embedded, error) {
	server, err := miniredis.Run()
	if err != nil {
		return nil, fmt.Errorf("embedded server: %w", err)
	}
	e := &embedded{server: server, done: make(chan struct{})}
	e.clock.Go(e.tick)
	return e, nil
}

func (e *embedded) url() string { return "redis://" + e.server.Addr() }

// tick moves the clock by the time that has really gone by, until stop.
func (e *embedded) tick() {
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for last := time.Now(); ; {
		select {
		case <-ticker.C:
			now := time.Now()
			e.server.FastForward(min(now.Sub(last), maxStep))
			last = now
		case <-e.done:
			return
		}
	}
}

func (e *embedded) stop() {
	close(e.done)
	e.clock.Wait()
	e.server.Close()
}
