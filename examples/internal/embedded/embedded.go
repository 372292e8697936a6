// Package embedded is a server inside the process, for examples that need only
// Go.
package embedded

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
)

const tick = 2 * time.Millisecond

// MaxStep is the largest step of a server's clock, which moves every tick. A
// step also shortens a key that was set just before it, so a long one would end
// that key too soon. After a pause the clock lags behind instead.
const MaxStep = 2 * tick

// Server is a server inside this process. The clock of the embedded one does
// not move, so that no key would ever expire. Here it follows real time.
type Server struct {
	server *miniredis.Miniredis
	clock  sync.WaitGroup
	done   chan struct{}
}

// Start starts one, on a free port.
func Start() (*Server, error) {
	server, err := miniredis.Run()
	if err != nil {
		return nil, fmt.Errorf("embedded server: %w", err)
	}
	e := &Server{server: server, done: make(chan struct{})}
	e.clock.Go(e.tick)
	return e, nil
}

// Next returns what comes next, or "" if ctx ends before.
func Next(ctx context.Context, from <-chan string) string {
	select {
	case one := <-from:
		return one
	case <-ctx.Done():
		return ""
	}
}

// Main runs an example on the server of REDIS_URL or, without it, on a new one.
// The program ends with code 1 if the example fails.
func Main(run func(ctx context.Context, out io.Writer, url string) error) {
	url, stop, err := Open(os.Getenv("REDIS_URL"))
	if err == nil {
		err = run(context.Background(), os.Stdout, url)
		stop()
	}
	if err != nil {
		log.Fatal(err)
	}
}

// Open returns url, or that of a new server if url is empty. stop ends that
// server.
func Open(url string) (opened string, stop func(), err error) {
	if url != "" {
		return url, func() {}, nil
	}
	server, err := Start()
	if err != nil {
		return "", nil, err
	}
	return server.URL(), server.Stop, nil
}

// URL is where it is, for relock.NewClientURL.
func (e *Server) URL() string { return "redis://" + e.server.Addr() }

// tick moves the clock by the time that has passed, until stop.
func (e *Server) tick() {
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for last := time.Now(); ; {
		select {
		case <-ticker.C:
			now := time.Now()
			e.server.FastForward(min(now.Sub(last), MaxStep))
			last = now
		case <-e.done:
			return
		}
	}
}

// Stop ends it.
func (e *Server) Stop() {
	close(e.done)
	e.clock.Wait()
	e.server.Close()
}

// Exists reports whether a key exists.
func (e *Server) Exists(key string) bool { return e.server.Exists(key) }
