package sentinel

import (
	"context"
	"slices"
	"time"

	"github.com/relock-go/relock/internal/redis/driver"
	"github.com/relock-go/relock/internal/redis/search"
)

// Config is what the options of a client say about its sentinels.
type Config struct {
	Name      string   // of the master
	Addresses []string // of sentinels, in the order in which they are asked
	Username  string
	Password  *string                     // see [driver.Config]
	LoginBy   string                      // what the user sets them by, for errors
	Map       func(address string) string // of what sentinels name; nil for none
	Servers   *driver.Config              // of the connections to servers
}

// Sentinel knows the master that sentinels name. Its methods may be called
// concurrently.
type Sentinel struct {
	*search.Search

	config Config
	now    chan struct{} // look immediately
	looked time.Time     // when the last look began; only for the goroutine that looks

	// These are guarded by mu.
	master    string             // "" before the first answer
	epoch     int64              // of the configuration that named it; see take
	interrupt context.CancelFunc // ends the look under way; nil without one
	cut       bool               // the last look was interrupted: the next one ends by itself
	invalid   bool               // the master failed since the last look began
	sentinels []string           // the first one answered last
	limit     time.Duration      // for each sentinel and server
	listening *listening
}

// New returns the topology of one master. It makes no network call.
func New(c Config) *Sentinel {
	s := &Sentinel{
		Search: search.New(), config: c, now: make(chan struct{}, 1), sentinels: slices.Clone(c.Addresses), limit: firstLimit,
	}
	s.Run = s.lookUntilClosed
	return s
}

// Topology returns the functions that a router calls.
func (s *Sentinel) Topology() *driver.Topology {
	return &driver.Topology{
		Master: func(ctx context.Context, _ string) (string, error) { return s.Master(ctx) }, Cached: s.cached,
		Masters: func(ctx context.Context) ([]string, error) {
			address, err := s.Master(ctx)
			return []string{address}, err
		},
		Invalidate: s.Invalidate, Refresh: s.Refresh, Changes: s.Changes, LogTo: s.LogTo, Close: s.Close,
	}
}

// Master returns the address of the master. Before the first answer of a
// sentinel, it waits for the end of a look.
func (s *Sentinel) Master(ctx context.Context) (string, error) {
	address, next, last := s.known()
	if address != "" {
		return address, nil
	}
	if err := search.Await(ctx, next, last); err != nil {
		return "", err
	}
	address, _, _ = s.known()
	return address, nil
}

// cached returns the address of the master, if a sentinel has named one.
func (s *Sentinel) cached(string) (address string, known bool) {
	address, _, _ = s.known()
	return address, address != ""
}

// known returns the master, or else the next look and the error of the last
// one. It starts the goroutine that looks.
func (s *Sentinel) known() (address string, next *search.Look, last error) {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	s.Start()
	return s.master, s.Next, s.Err
}

// Invalidate notes that a server does not answer, or takes no writes.
func (s *Sentinel) Invalidate(address string) {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	if address == s.master && !s.invalid {
		s.invalid = true
		search.Signal(s.Soon)
	}
}

// switched looks immediately, because a sentinel said that the master has
// changed. A look under way may wait for the old one. In a storm of messages
// looks must end all the same.
func (s *Sentinel) switched() {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	if s.interrupt != nil && !s.cut {
		s.interrupt()
	}
	search.Signal(s.now)
}
