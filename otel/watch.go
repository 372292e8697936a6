package relockotel

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/queue"
)

// statsLimit is how long one collection waits for the servers of all queues.
const statsLimit = 2 * time.Second

// watched is what the gauges are about.
type watched struct {
	mu      sync.Mutex
	clients []watchedClient
	queues  []*queue.Queue
	past    counts // of clients that are watched no longer: a counter must not fall
}

// watchedClient is a client, with what it had counted before.
type watchedClient struct {
	*relock.Client
	before counts
}

type counts struct{ losses, renewalErrors int64 }

// since returns what the client has counted since it is watched.
func (c *watchedClient) since(s *relock.Stats) counts {
	return counts{s.Losses - c.before.losses, s.RenewalErrors - c.before.renewalErrors}
}

func (c counts) plus(other counts) counts {
	return counts{c.losses + other.losses, c.renewalErrors + other.renewalErrors}
}

// Watch adds a client and queues to the gauges, which are read at each
// collection. The client costs no request, and a queue one small script. The
// servers of all queues have 2 seconds. What is not answered by then is left
// out of the collection, and reported to the error handler of OpenTelemetry.
//
// All clients that are watched count together. The counters begin with Watch,
// and do not fall when it is stopped. Watch returns an error that matches
// [relock.ErrInvalid] if the client is nil or already watched, or if a queue is
// nil or has the name of one that is watched.
//
// stop removes the client and the queues. Call it before you close the client.
func (t *Telemetry) Watch(c *relock.Client, queues ...*queue.Queue) (stop func(), err error) {
	if !t.isMade() {
		return func() {}, nil
	}
	queues = slices.Clone(queues) // the caller may change its own
	if err := t.watched.add(c, queues); err != nil {
		return nil, wrap("watch", err)
	}
	var once sync.Once
	return func() { once.Do(func() { t.watched.remove(c, queues) }) }, nil
}

func (w *watched) add(c *relock.Client, queues []*queue.Queue) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	var m lockspec.Problems
	m.Check(c != nil, "client: is nil")
	m.Check(c == nil || w.index(c) < 0, "client: is already watched")
	all := w.queues[:len(w.queues):len(w.queues)]
	for i, q := range queues {
		name := q.Name()
		m.Check(name != "", "queues[%d]: was not made by New", i)
		m.Check(!slices.ContainsFunc(all, func(q *queue.Queue) bool { return q.Name() == name }),
			"queues[%d]: a queue named %q is already watched", i, name)
		all = append(all, q)
	}
	if err := m.Err(); err != nil {
		return err
	}
	s := c.Stats()
	w.clients, w.queues = append(w.clients, watchedClient{c, counts{s.Losses, s.RenewalErrors}}), all
	return nil
}

// index returns where the client is among those that are watched, or -1.
func (w *watched) index(c *relock.Client) int {
	return slices.IndexFunc(w.clients, func(one watchedClient) bool { return one.Client == c })
}

func (w *watched) remove(c *relock.Client, queues []*queue.Queue) {
	w.mu.Lock()
	defer w.mu.Unlock()
	i, s := w.index(c), c.Stats()
	w.past = w.past.plus(w.clients[i].since(&s))
	w.clients = slices.Delete(w.clients, i, i+1)
	// A collection may still read the queues that there were.
	w.queues = slices.DeleteFunc(slices.Clone(w.queues), func(q *queue.Queue) bool { return slices.Contains(queues, q) })
}

// stats returns the figures of all clients together, and reports whether there
// are some. It also returns the queues.
func (w *watched) stats() (sum relock.Stats, queues []*queue.Queue, some bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	counted := w.past
	for _, c := range w.clients {
		s := c.Stats()
		sum.Held += s.Held
		sum.Waiting += s.Waiting
		sum.Connections += s.Connections
		sum.OldestHold = max(sum.OldestHold, s.OldestHold)
		counted = counted.plus(c.since(&s))
	}
	sum.Losses, sum.RenewalErrors = counted.losses, counted.renewalErrors
	return sum, w.queues, len(w.clients) > 0
}

// gauges are the instruments that a collection reads.
type gauges struct {
	held, waiting, connections metric.Int64ObservableUpDownCounter
	oldestHold                 metric.Float64ObservableGauge
	losses, renewalErrors      metric.Int64ObservableCounter

	ready, delayed, inFlight, behind, dead, idle metric.Int64ObservableGauge
	paused, pausedKeys                           metric.Int64ObservableGauge
	oldest                                       metric.Float64ObservableGauge
	overdue                                      metric.Int64ObservableUpDownCounter
}

func newGauges(m *maker) gauges {
	return gauges{
		held:          m.sum("relock.held", "{lock}", "Locks that the process has."),
		waiting:       m.sum("relock.waiting", "{call}", "Calls that wait for a lock."),
		connections:   m.sum("relock.connections", "{connection}", "Open connections to the server."),
		oldestHold:    m.age("relock.oldest_hold", "Age of the oldest hold, 0 if there is none."),
		losses:        m.total("relock.losses", "{lock}", "Locks that were lost before their Unlock."),
		renewalErrors: m.total("relock.renewal.errors", "{call}", "Renewals without an answer, or refused."),
		ready:         m.number("relock.queue.ready", "{task}", "Tasks that are due, and not in flight."),
		delayed:       m.number("relock.queue.delayed", "{task}", "Tasks that are due later, with retries."),
		inFlight:      m.number("relock.queue.in_flight", "{task}", "Tasks that are being processed."),
		behind: m.number("relock.queue.behind", "{task}",
			"Tasks behind an earlier one or a pause of their keys, or a lock."),
		dead:       m.number("relock.queue.dead", "{task}", "Dead letters."),
		idle:       m.number("relock.queue.idle", "{receiver}", "Receivers that wait for a task."),
		paused:     m.number("relock.queue.paused", "{queue}", "1 if the queue is paused, 0 if it is not."),
		pausedKeys: m.number("relock.queue.paused_keys", "{key}", "Keys whose tasks are paused."),
		oldest:     m.age("relock.queue.oldest", "For how long the oldest ready task has been due."),
		overdue:    m.sum("relock.queue.overdue", "{task}", "Deliveries of this process whose function does not return."),
	}
}

func (g *gauges) all() []metric.Observable {
	return []metric.Observable{
		g.held, g.waiting, g.connections, g.oldestHold, g.losses, g.renewalErrors,
		g.ready, g.delayed, g.inFlight, g.behind, g.dead, g.idle, g.paused, g.pausedKeys, g.oldest, g.overdue,
	}
}

// observe is called at each collection.
func (t *Telemetry) observe(ctx context.Context, o metric.Observer) error {
	s, queues, some := t.watched.stats()
	if !some {
		return nil
	}
	g := &t.gauges
	o.ObserveInt64(g.held, int64(s.Held))
	o.ObserveInt64(g.waiting, int64(s.Waiting))
	o.ObserveInt64(g.connections, int64(s.Connections))
	o.ObserveFloat64(g.oldestHold, s.OldestHold.Seconds())
	o.ObserveInt64(g.losses, s.Losses)
	o.ObserveInt64(g.renewalErrors, s.RenewalErrors)
	if err := g.observeQueues(ctx, o, queues); err != nil {
		otel.Handle(err) // the error of a callback may cost all metrics of the process
	}
	return nil
}

// observeQueues asks all servers together: one that hangs keeps none from
// answering.
func (g *gauges) observeQueues(ctx context.Context, o metric.Observer, queues []*queue.Queue) error {
	ctx, cancel := context.WithTimeout(ctx, statsLimit)
	defer cancel()
	all, failed := make([]queue.Stats, len(queues)), make([]error, len(queues))
	var reads sync.WaitGroup
	for i, q := range queues {
		reads.Go(func() { all[i], failed[i] = q.Stats(ctx) })
	}
	reads.Wait()
	for i, q := range queues {
		if failed[i] == nil {
			g.observeQueue(o, q.Name(), &all[i])
		}
	}
	return errors.Join(failed...)
}

func (g *gauges) observeQueue(o metric.Observer, name string, s *queue.Stats) {
	of := metric.WithAttributeSet(attribute.NewSet(destinationKey.String(name)))
	o.ObserveInt64(g.ready, int64(s.Ready), of)
	o.ObserveInt64(g.delayed, int64(s.Delayed), of)
	o.ObserveInt64(g.inFlight, int64(s.InFlight), of)
	o.ObserveInt64(g.behind, int64(s.Behind), of)
	o.ObserveInt64(g.dead, int64(s.Dead), of)
	o.ObserveInt64(g.idle, int64(s.Idle), of)
	paused := int64(0)
	if s.Paused {
		paused = 1
	}
	o.ObserveInt64(g.paused, paused, of)
	o.ObserveInt64(g.pausedKeys, int64(s.PausedKeys), of)
	o.ObserveFloat64(g.oldest, s.Oldest.Seconds(), of)
	o.ObserveInt64(g.overdue, int64(s.Overdue), of)
}
