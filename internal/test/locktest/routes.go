package locktest

import (
	"context"
	"testing"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/redis/driver"
	"github.com/relock-go/relock/internal/test/redistest"
)

// Routes is a topology of a Cluster that has no slot table. It learns from
// redirects only where keys are, and a test can mislead it.
type Routes struct {
	*directory
	known  map[string]string // the address of a key, by its tag
	count  map[bool]int      // the redirects, by whether they are for once
	answer string            // of Redirect, if a test wants another one
}

// NewRoutes returns a topology of these masters. A key of which it has learnt
// nothing is at the first.
func NewRoutes(masters ...*redistest.Server) *Routes {
	return &Routes{directory: newDirectory(masters), known: map[string]string{}, count: map[bool]int{}}
}

// Sibling returns a topology of the same keys that has learnt nothing.
func (r *Routes) Sibling() *Routes {
	other := NewRoutes(r.masters...)
	other.prefix = r.prefix
	return other
}

// Sharded makes the clients use sharded channels.
func (r *Routes) Sharded() *Routes {
	r.sharded = true
	return r
}

// Client returns a client of the topology. It is closed when the test ends.
func (r *Routes) Client(t testing.TB, opts ...relock.ClientOption) *relock.Client {
	t.Helper()
	return r.client(t, &driver.Topology{Master: r.master, Redirect: r.redirect}, opts)
}

// Mislead makes the topology name a server for the lock.
func (r *Routes) Mislead(name string, s *redistest.Server) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.known[name] = s.Address
}

// Lead makes Redirect return the address of this server, or again the right one
// if it is nil.
func (r *Routes) Lead(s *redistest.Server) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.answer = ""; s != nil {
		r.answer = s.Address
	}
}

// Moved returns how many requests were redirected by MOVED.
func (r *Routes) Moved() int { return r.redirects(false) }

// Asked returns how many requests were redirected by ASK.
func (r *Routes) Asked() int { return r.redirects(true) }

func (r *Routes) redirects(once bool) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.count[once]
}

func (r *Routes) master(_ context.Context, key string) (string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if address := r.known[driver.TagOf(key)]; address != "" {
		return address, nil
	}
	return r.masters[0].Address, nil
}

func (r *Routes) redirect(key, _, to string, once bool) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.count[once]++
	if r.answer != "" {
		return r.answer
	}
	if !once {
		r.known[driver.TagOf(key)] = to
	}
	return to
}
