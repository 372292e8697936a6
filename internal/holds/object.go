package holds

import "sync"

// Object is a lock object that several goroutines share. It is taken from Lock
// to the matching Unlock, even if its hold is lost in between. The zero value
// is free.
type Object[H any] struct {
	mu   sync.Mutex
	held *H // from Lock to the matching Unlock
	// freed is closed by that Unlock; nil if no call waits for it.
	freed chan struct{}
}

// Take makes h the object's hold, unless the object has one. It reports whether
// h is the object's hold.
func (o *Object[H]) Take(h *H) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.held == nil {
		o.held = h
	}
	return o.held == h
}

// Held returns the object's hold, or nil.
func (o *Object[H]) Held() *H {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.held
}

// Free makes the object free if h is its hold. It reports whether h was.
func (o *Object[H]) Free(h *H) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if h == nil || o.held != h {
		return false
	}
	o.held = nil
	if o.freed != nil {
		close(o.freed)
		o.freed = nil
	}
	return true
}

// Freed returns a channel that is closed when the object is free.
func (o *Object[H]) Freed() <-chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.held == nil {
		free := make(chan struct{})
		close(free)
		return free
	}
	if o.freed == nil {
		o.freed = make(chan struct{})
	}
	return o.freed
}
