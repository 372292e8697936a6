package driver

import (
	"context"
	"sync"
	"time"
)

// question is the context of a call of the topology. It ends with its parent,
// with the router, and after the limit. A topology that answers from memory
// does not wait for that. So the limit counts from the first use, which costs
// other calls no timer.
type question struct {
	context.Context // the parent

	router *Router
	limit  Limits // for connecting

	mu     sync.Mutex
	used   context.Context // nil before the first use
	free   func()
	over   bool
	unkept bool // the topology has said so
}

// questions are contexts that nobody has.
var questions = sync.Pool{New: func() any { return new(question) }}

// ask returns the context of one call. Its end must be called after it.
func (r *Router) ask(ctx context.Context, limit Limits) *question {
	q := questions.Get().(*question)
	q.Context, q.router, q.limit = ctx, r, limit
	return q
}

// Unkept is called by a topology that answers without a use of the context of
// the call, and that does not keep it. Then the router may use it again, and
// the call allocates nothing.
func Unkept(ctx context.Context) {
	if q, ok := ctx.(*question); ok {
		q.unkept = true
	}
}

// use returns the context with the limit.
func (q *question) use() context.Context {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.used == nil {
		used, cancel := context.WithTimeout(q.Context, below(q.router.config.DialTimeout, q.limit.at(time.Now()).Connect))
		stop := context.AfterFunc(q.router.life, cancel)
		q.used, q.free = used, func() {
			stop()
			cancel()
		}
		if q.over {
			q.free()
		}
	}
	return q.used
}

func (q *question) Deadline() (time.Time, bool) { return q.use().Deadline() }

func (q *question) Done() <-chan struct{} { return q.use().Done() }

func (q *question) Err() error { return q.use().Err() }

// end frees what a call that waited has used.
func (q *question) end() {
	q.mu.Lock()
	if q.unkept && q.used == nil {
		q.Context, q.router, q.limit, q.unkept = nil, nil, Limits{}, false
		q.mu.Unlock()
		questions.Put(q)
		return
	}
	defer q.mu.Unlock()
	if q.over = true; q.free != nil {
		q.free()
	}
}
