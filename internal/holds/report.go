package holds

import (
	"context"
	"runtime/pprof"
	"sync"
	"time"
)

// End describes how a hold, or an attempt to renew it, has ended.
type End struct {
	Key, Kind  string
	Start, End time.Time
	Op         string // what found the end: "hold", "unlock" or "detach"; or "renew"; only with an error
	Err        error
}

// Report reports the end of a hold to an observer, once and not before its
// grant was announced. From then on until the end, the hold is in the profile.
// A nil Report reports nothing. It is small, because each hold of a client with
// an observer has one.
type Report struct {
	notify    func(context.Context, End) // nil without an observer
	profiled  *profiled                  // nil without a profile
	values    values
	key, kind string
	start     time.Time

	mu      sync.Mutex
	end     time.Time
	failure *failure // why the hold has ended; nil if it ended by a confirmed call
	known   bool     // the grant was announced
	over    bool     // the hold has ended, and end and failure are complete
}

// InTurn returns a hook that calls first and then second. It returns nil if
// there is none.
func InTurn[E any](first, second func(context.Context, E)) func(context.Context, E) {
	switch {
	case first == nil:
		return second
	case second == nil:
		return first
	}
	return func(ctx context.Context, e E) {
		first(ctx, e)
		second(ctx, e)
	}
}

// failure is an error, and the operation that has found it.
type failure struct {
	op  string
	err error
}

// NewReport returns the report of a hold that was granted at start, or nil if
// there is neither an observer nor a profile to report it to.
func NewReport(
	ctx context.Context, tell func(context.Context, End), profile *pprof.Profile, key, kind string, start time.Time,
) *Report {
	if tell == nil && profile == nil {
		return nil
	}
	return &Report{notify: tell, profiled: newProfiled(profile), values: values{ctx}, key: key, kind: kind, start: start}
}

// Ended notes when the hold has ended. Only the first call has an effect.
func (r *Report) Ended(at time.Time) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.end.IsZero() {
		r.end = at
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
// must call Notify.
func (r *Report) Set(op string, err error) (tell bool) {
	if r == nil {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over {
		return false
	}
	r.over = true
	if err != nil {
		r.failure = &failure{op, err}
	}
	return r.known
}

// Notify reports the end to the observer.
func (r *Report) Notify() {
	r.leave()
	r.tell()
}

func (r *Report) tell() {
	if r.notify == nil {
		return
	}
	e := End{Key: r.key, Kind: r.kind, Start: r.start, End: r.end}
	if r.failure != nil {
		e.Op, e.Err = r.failure.op, r.failure.err
	}
	r.notify(&r.values, e)
}

// Announce notes that the grant was announced. If the hold has already ended,
// it reports the end.
func (r *Report) Announce() {
	if r == nil {
		return
	}
	r.mu.Lock()
	r.known = true
	over := r.over
	if !over {
		r.enter()
	}
	r.mu.Unlock()
	if over {
		r.tell()
	}
}
