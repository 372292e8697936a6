package holds

import (
	"context"
	"sync"
	"time"
)

// End describes how a hold, or an attempt to renew it, has ended.
type End struct {
	Key, Kind  string
	Start, End time.Time
	Op         string // what found the end: "hold", "unlock" or "detach"; or "renew"
	Err        error
}

// Report reports the end of a hold to an observer, once and not before its
// grant was announced. A nil Report reports nothing.
type Report struct {
	notify func(context.Context, End)
	ctx    context.Context

	mu    sync.Mutex
	end   End
	known bool // the grant was announced
	over  bool // the hold has ended, and end is complete
}

// NewReport returns the report of a hold that is granted now, or nil if tell is
// nil.
func NewReport(ctx context.Context, tell func(context.Context, End), key, kind string) *Report {
	if tell == nil {
		return nil
	}
	return &Report{notify: tell, ctx: context.WithoutCancel(ctx), end: End{Key: key, Kind: kind, Start: time.Now()}}
}

// Ended notes that the hold ends now. Only the first call has an effect.
func (r *Report) Ended() {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.end.End.IsZero() {
		r.end.End = time.Now()
	}
}

// Done sets how the hold has ended, and reports it if the grant was announced.
// Only the first call has an effect.
func (r *Report) Done(op string, err error) {
	if r.Set(op, err) {
		r.Notify()
	}
}

// Set is Done for a caller that holds a mutex. It reports whether the caller
// must call Tell.
func (r *Report) Set(op string, err error) (tell bool) {
	if r == nil {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over {
		return false
	}
	r.over, r.end.Op, r.end.Err = true, op, err
	return r.known
}

// Notify reports the end to the observer.
func (r *Report) Notify() { r.notify(r.ctx, r.end) }

// Announce notes that the grant was announced. If the hold has already ended,
// it reports the end.
func (r *Report) Announce() {
	if r == nil {
		return
	}
	r.mu.Lock()
	r.known = true
	over := r.over
	r.mu.Unlock()
	if over {
		r.notify(r.ctx, r.end)
	}
}
