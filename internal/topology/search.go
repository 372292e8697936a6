package topology

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/tasks"
)

// search is what the topologies share: a goroutine that looks for servers, from
// the first request on, and the callers that wait for what it finds.
type search struct {
	life    context.Context // cancelled by Close
	end     context.CancelFunc
	tasks   tasks.Group
	changes chan struct{}
	soon    chan struct{} // look, unless that was just done

	mu      sync.Mutex
	run     func() // looks until Close
	logger  *slog.Logger
	started bool
	looking bool      // a look is under way
	warned  time.Time // when a look was logged
	err     error     // of the last look
	next    *look     // under way, or the next one
}

// A look is one attempt to find servers.
type look struct {
	done chan struct{} // closed when err is set
	err  error
}

func newLook() *look { return &look{done: make(chan struct{})} }

func newSearch() *search {
	s := &search{next: newLook(), changes: make(chan struct{}, 1), soon: make(chan struct{}, 1), logger: slog.New(slog.DiscardHandler)}
	s.life, s.end = context.WithCancel(context.Background())
	return s
}

// logTo sets the logger of what delays calls. By default nothing is logged.
func (s *search) logTo(logger *slog.Logger) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.logger = logger
}

// start starts the goroutine that looks, once; mu is held.
func (s *search) start() {
	if !s.started {
		s.started = s.tasks.Start(s.run)
	}
}

// Refresh looks, and returns when a look that began after the call has ended.
// One that is under way may have asked before.
func (s *search) Refresh(ctx context.Context) error {
	for first := true; ; first = false {
		late, next, last := s.want()
		if err := await(ctx, next, last); !late || !first || ctx.Err() != nil {
			return err
		}
	}
}

// want asks for a look. It returns the one that ends next, and reports whether
// that began before.
func (s *search) want() (late bool, next *look, last error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.start()
	signal(s.soon)
	return s.looking, s.next, s.err
}

// begin notes that a look begins, so that none is wanted; mu is held.
func (s *search) begin() {
	s.looking = true
	select {
	case <-s.soon:
	default:
	}
}

// conclude ends a look, which failed for a reason or nil; mu is held.
func (s *search) conclude(failed *lookError) {
	var err error // not a nil *lookError
	if failed != nil {
		err = failed
		s.warn(failed)
	}
	s.looking = false
	s.err, s.next.err = err, err
	close(s.next.done)
	s.next = newLook()
}

// warnPause is the time between two warnings, at least.
const warnPause = time.Minute

// warn logs that the search goes on, although a server said no; mu is held. The
// handler is the user's, and may block.
func (s *search) warn(failed *lookError) {
	if !failed.outvoted || !s.warned.IsZero() && time.Since(s.warned) < warnPause {
		return
	}
	s.warned = time.Now()
	logger := s.logger
	s.tasks.Start(func() {
		logger.Warn("relock: a server refuses, but no majority of those in the settings: asking on", "reason", failed.Error())
	})
}

// await waits for the end of a look. If ctx ends first, the error of the look
// before says more.
func await(ctx context.Context, next *look, last error) error {
	select {
	case <-next.done:
		return next.err
	case <-ctx.Done():
		if last != nil {
			return last
		}
		return ctx.Err()
	}
}

// Close ends the goroutines, and closes their connections.
func (s *search) Close() error {
	s.end()
	s.tasks.WaitFor(driver.CloseWait)
	return nil
}

// signal puts a value into a channel of capacity one, unless it has one.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
