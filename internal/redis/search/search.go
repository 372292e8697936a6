package search

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/relock-go/relock/internal/goroutines"
	"github.com/relock-go/relock/internal/redis/conns"
)

// Search is what the topologies share: a goroutine that looks for servers, from
// the first request on, and the callers that wait for what it finds.
type Search struct {
	Life    context.Context // cancelled by Close
	end     context.CancelFunc
	Tasks   goroutines.Group
	Changes chan struct{}
	Soon    chan struct{} // look, unless that was just done

	Mu      sync.Mutex
	Run     func() // looks until Close
	logger  *slog.Logger
	started bool
	Looking bool      // a look is under way
	warned  time.Time // when a look was logged
	Err     error     // of the last look
	Next    *Look     // under way, or the next one
}

// A Look is one attempt to find servers.
type Look struct {
	done chan struct{} // closed when err is set
	err  error
}

func newLook() *Look { return &Look{done: make(chan struct{})} }

// New returns a search that has not begun. Its Run is set before its first use.
func New() *Search {
	s := &Search{
		Next: newLook(), Changes: make(chan struct{}, 1), Soon: make(chan struct{}, 1), logger: slog.New(slog.DiscardHandler),
	}
	s.Life, s.end = context.WithCancel(context.Background())
	return s
}

// LogTo sets the logger of what delays calls. By default nothing is logged.
func (s *Search) LogTo(logger *slog.Logger) {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	s.logger = logger
}

// Start starts the goroutine that looks, once; mu is held.
func (s *Search) Start() {
	if !s.started {
		s.started = s.Tasks.Start(s.Run)
	}
}

// Refresh looks, and returns when a look that began after the call has ended.
// One that is under way may have asked before.
func (s *Search) Refresh(ctx context.Context) error {
	for first := true; ; first = false {
		late, next, last := s.want()
		if err := Await(ctx, next, last); !late || !first || ctx.Err() != nil {
			return err
		}
	}
}

// want asks for a look. It returns the one that ends next, and reports whether
// that began before.
func (s *Search) want() (late bool, next *Look, last error) {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	s.Start()
	Signal(s.Soon)
	return s.Looking, s.Next, s.Err
}

// Begin notes that a look begins, so that none is wanted; mu is held.
func (s *Search) Begin() {
	s.Looking = true
	select {
	case <-s.Soon:
	default:
	}
}

// Conclude ends a look, which failed for a reason or nil; mu is held.
func (s *Search) Conclude(failed *LookError) {
	var err error // not a nil *LookError
	if failed != nil {
		err = failed
		s.warn(failed)
	}
	s.Looking = false
	s.Err, s.Next.err = err, err
	close(s.Next.done)
	s.Next = newLook()
}

// warnPause is the time between two warnings, at least.
const warnPause = time.Minute

// warn logs that the search goes on, although a server said no; mu is held. The
// handler is the user's, and may block.
func (s *Search) warn(failed *LookError) {
	if !failed.outvoted || !s.warned.IsZero() && time.Since(s.warned) < warnPause {
		return
	}
	s.warned = time.Now()
	logger := s.logger
	s.Tasks.Start(func() {
		logger.Warn("relock: a server refuses, but no majority of those in the settings: asking on", "reason", failed.Error())
	})
}

// Await waits for the end of a look. If ctx ends first, the error of the look
// before says more.
func Await(ctx context.Context, next *Look, last error) error {
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
func (s *Search) Close() error {
	s.end()
	s.Tasks.WaitFor(conns.CloseWait)
	return nil
}

// Signal puts a value into a channel of capacity one, unless it has one.
func Signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
