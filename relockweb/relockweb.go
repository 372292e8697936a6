// Package relockweb has a web page for people on call: which locks are waited
// for, by which clients, which process holds them, what is wrong with the
// queues, and what a task waits for. With [WithActions] it can also end a hold,
// handle dead letters, and pause a queue or a key.
//
// The page has one path. Its views are queries, so there is no prefix to
// configure, and each view is a link to send to a colleague:
//
//	?                                  locks and queues
//	?match=orders/*                    locks whose names match, as in SCAN
//	?lock=orders/42                    a lock
//	?queue=mails                       a queue, what is paused, and its dead letters
//	?queue=mails&state=behind&page=2   its tasks that are in-flight, ready, behind or delayed
//	?queue=mails&task=42               a task
//
// With format=json a view is an object, for other programs.
package relockweb

import (
	"net/http"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/queue"
)

// Option changes what the page has. Options are made by [WithActions],
// [WithQueues] and [WithPayload].
type Option func(*handler)

// Action is a change that somebody asks for.
type Action struct {
	// Verb is "release" of a lock; "requeue", "remove", "pause" or "resume" of
	// a queue; or "pause key" or "resume key" of the tasks with TaskKey.
	Verb    string
	Key     string   // of the lock, or the name of the queue
	TaskKey string   // of a pause of a key
	IDs     []string // of tasks that are requeued or removed
	Reason  string   // of a release
}

// Handler returns a page that shows the locks and queues of client. It asks for
// no password: wrap it in what your program uses. It can be mounted anywhere.
// By default it changes nothing.
//
//	mux.Handle("/debug/relock", auth(relockweb.Handler(client)))
//
// Nothing is sent to the server while nobody looks. All viewers of a view share
// one reading, which is 2s old at most. The list has up to 1,000 locks, and
// stops after 2s in a large database. The user needs the permissions of
// [relock.Client.List], or the page names what is refused.
//
// Handler panics if client or an argument of an option is nil.
func Handler(client *relock.Client, opts ...Option) http.Handler {
	if client == nil {
		panic("relockweb: client is nil")
	}
	h := &handler{client: client, cells: map[query]*cell{}, scan: make(chan struct{}, 1)}
	for _, o := range opts {
		if o == nil {
			panic("relockweb: option is nil")
		}
		o(h)
	}
	return http.NewCrossOriginProtection().Handler(h)
}

// WithActions shows the buttons: to end a hold, to requeue dead letters, to
// remove tasks, and to pause and resume. Each change is passed to audit before
// it is made. If audit returns an error, the change is refused, and the page
// has the text of that error.
//
// A change that was asked for on an old view is refused, if the lock has
// another holder by then. Requests from other origins are refused as
// [http.CrossOriginProtection] does.
func WithActions(audit func(r *http.Request, a Action) error) Option {
	if audit == nil {
		panic("relockweb: audit is nil")
	}
	return func(h *handler) { h.audit = audit }
}

// WithQueues shows these queues, and no others. Without it the page finds the
// queues that the server has by their names, once a minute and up to 50.
// Deliveries that are overdue are shown if they run in these values: see
// [queue.Stats].
func WithQueues(queues ...*queue.Queue) Option {
	for _, q := range queues {
		if q == nil {
			panic("relockweb: queue is nil")
		}
	}
	return func(h *handler) { h.queues = append(h.queues, queues...) }
}

// WithPayload sets how the payload of a task is shown. By default only its size
// is, because it may contain personal data.
func WithPayload(show func(queue.Task) string) Option {
	if show == nil {
		panic("relockweb: show is nil")
	}
	return func(h *handler) { h.payload = show }
}
