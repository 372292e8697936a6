package holds

import (
	"context"
	"sync"
	"time"
)

// End is how a hold has ended.
type End struct {
	Key, Kind  string
	Start, End time.Time
	Op         string // what has found the end: "hold" or "unlock"
	Err        error
}

// Report reports the end of a hold to an observer: once, and not before its
// grant was announced. A nil Report reports nothing.
type Report struct {
	tell func(context.Context, End)
	ctx  context.Context

	mu    sync.Mutex
	end   End
	known bool // the grant was announced
	over  bool // the hold has ended, and end is complete
}

// NewReport returns the report of a hold that is granted now; nil if tell is.
func NewReport(ctx context.Context, tell func(context.Context, End), key, kind string) *Report {
	if tell == nil {
		return nil
	}
	return &Report{tell: tell, ctx: context.WithoutCancel(ctx), end: End{Key: key, Kind: kind, Start: time.Now()}}
}

// Ended notes that the hold ends now.
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
// Only the first call does.
func (r *Report) Done(op string, err error) {
	if r.Set(op, err) {
		r.Tell()
	}
}

// Set is Done for a caller that holds a mutex: it returns whether Tell is to be
// called.
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

// Tell calls the observer with the end.
func (r *Report) Tell() { r.tell(r.ctx, r.end) }

// Announce lets the end be reported, which may have come.
func (r *Report) Announce() {
	if r == nil {
		return
	}
	r.mu.Lock()
	r.known = true
	over := r.over
	r.mu.Unlock()
	if over {
		r.tell(r.ctx, r.end)
	}
}
