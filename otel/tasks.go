package relockotel

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/queue"
)

// taskMetrics has what the hooks of queues measure.
type taskMetrics struct {
	sent, consumed, overdue metric.Int64Counter
	process, wait           metric.Float64Histogram

	operations *series[taskLabels]
	waits      *series[waitLabels]
}

func newTaskMetrics(m *maker) taskMetrics {
	return taskMetrics{
		sent:       m.counter("messaging.client.sent.messages", "{message}", "Tasks that were enqueued, or could not be."),
		consumed:   m.counter("messaging.client.consumed.messages", "{message}", "Deliveries of tasks."),
		overdue:    m.counter("relock.task.overdue", "{task}", "Deliveries whose function did not return in time."),
		process:    m.seconds("messaging.process.duration", "Time from a delivery of a task to its end."),
		wait:       m.seconds("relock.task.wait.duration", "Time from when a task was first due to a delivery."),
		operations: newSeries[taskLabels](),
		waits:      newSeries[waitLabels](),
	}
}

// Queues returns the observer to give to [queue.WithObserver], for any number
// of queues. It measures each task. See [Telemetry.Enqueue] and
// [Telemetry.Process] for the spans, and [Telemetry.Watch] for the gauges.
func (t *Telemetry) Queues() queue.Observer {
	if !t.isMade() {
		return queue.Observer{}
	}
	return queue.Observer{Enqueued: t.enqueued, Received: t.received, Finished: t.finished, Overdue: t.overdue}
}

func (t *Telemetry) enqueued(ctx context.Context, e queue.Enqueued) {
	t.tasks.sent.Add(ctx, 1, t.tasks.operations.of(taskLabels{queue: e.Queue, operation: opSend}).add...)
}

func (t *Telemetry) received(ctx context.Context, e queue.Received) {
	t.tasks.consumed.Add(ctx, 1, t.tasks.operations.of(taskLabels{queue: e.Queue, operation: opReceive}).add...)
	t.tasks.wait.Record(ctx, e.Waited.Seconds(), t.tasks.waits.of(waitLabels{e.Queue, e.Attempt > 1}).record...)
}

func (t *Telemetry) finished(ctx context.Context, e queue.Finished) {
	l := taskLabels{queue: e.Queue, operation: opProcess, outcome: e.Outcome}
	if e.Outcome != queue.Acknowledged && e.Outcome != queue.Released {
		l.failure = string(e.Outcome)
	}
	t.tasks.process.Record(ctx, time.Since(e.Start).Seconds(), t.tasks.operations.of(l).record...)
}

func (t *Telemetry) overdue(ctx context.Context, e queue.Overdue) {
	t.tasks.overdue.Add(ctx, 1, t.tasks.waits.of(waitLabels{e.Queue, e.Attempt > 1}).add...)
}

// Enqueue is q.Enqueue within a span "send" and the name of the queue. All its
// tasks carry the context of the span in their headers, besides their own: it
// needs some 60 bytes, and more for a trace state and baggage. What does not
// fit is left out, baggage first. That is reported to the error handler of
// OpenTelemetry, once.
//
// It returns what q.Enqueue returns. Tasks that were not queued are counted
// with their errors. Those that were queued are counted by [Telemetry.Queues],
// as the observer of q.
func (t *Telemetry) Enqueue(ctx context.Context, q *queue.Queue, tasks ...queue.Task) (ids []string, err error) {
	if !t.isMade() || ctx == nil {
		return q.Enqueue(ctx, tasks...)
	}
	all := operation(opSend, q)
	if len(tasks) > 1 {
		all = append(all, batchKey.Int(len(tasks)))
	}
	ctx, span := t.tracer.Start(ctx, "send "+q.Name(),
		trace.WithSpanKind(trace.SpanKindProducer), trace.WithAttributes(all...))
	defer span.End()
	ids, err = q.Enqueue(ctx, t.carriers(ctx, q, tasks)...)
	if err != nil {
		fail(span, t.unsent(ctx, q, len(tasks), err))
	}
	return ids, err
}

// duplicate is the reason why a task was left out whose ID is in use.
const duplicate = "duplicate"

// unsent counts which of n tasks were not queued, and returns the reason in one
// word. A duplicate is the reason only if there is no other one.
func (t *Telemetry) unsent(ctx context.Context, q *queue.Queue, n int, err error) (failure string) {
	e := new(queue.EnqueueError)
	errors.As(err, &e) // otherwise no task was queued
	failure = duplicate
	if others := n - len(e.Queued) - len(e.Duplicates); others > 0 || n == 0 {
		failure = string(relock.OutcomeOf(err))
		t.addUnsent(ctx, q, others, failure)
	}
	t.addUnsent(ctx, q, len(e.Duplicates), duplicate)
	return failure
}

func (t *Telemetry) addUnsent(ctx context.Context, q *queue.Queue, n int, failure string) {
	if n > 0 {
		labels := taskLabels{queue: q.Name(), operation: opSend, failure: failure}
		t.tasks.sent.Add(ctx, int64(n), t.tasks.operations.of(labels).add...)
	}
}

// fail ends an operation with an error, which is one word.
func fail(span trace.Span, failure string) {
	span.SetAttributes(errorKey.String(failure))
	span.SetStatus(codes.Error, failure)
}

// operation returns the attributes of a span of a queue.
func operation(name string, q *queue.Queue) []attribute.KeyValue {
	return []attribute.KeyValue{
		systemKey.String("relock"), operationKey.String(name), kindOfOpKey.String(name), destinationKey.String(q.Name()),
	}
}

// Process returns fn within a span "process" and the name of the queue, for
// [queue.Queue.Process]. The span of the first attempt is a child of the one
// that has sent the task. A retry begins a new trace with a link to that: a
// task that is retried for hours neither stretches a trace nor inherits that it
// was sampled. Baggage comes along. A task without a trace begins one.
//
// The span has the error of fn, with its text: see that it has no secret.
func (t *Telemetry) Process(
	q *queue.Queue, fn func(context.Context, *queue.Delivery) error,
) func(context.Context, *queue.Delivery) error {
	if !t.isMade() || fn == nil {
		return fn
	}
	return func(ctx context.Context, d *queue.Delivery) (err error) {
		ctx, span := t.begin(ctx, q, d)
		failure := "panic" // or the end of the goroutine
		defer func() { end(span, failure, err) }()
		err = fn(ctx, d)
		failure = ""
		return err
	}
}

// begin starts the span of an attempt. The span of Process itself is not its
// parent.
func (t *Telemetry) begin(ctx context.Context, q *queue.Queue, d *queue.Delivery) (context.Context, trace.Span) {
	ctx = trace.ContextWithSpanContext(ctx, trace.SpanContext{})
	ctx = t.set.propagator.Extract(ctx, propagation.MapCarrier(d.Header))
	all := append(operation(opProcess, q), attemptKey.Int(d.Attempt))
	if !t.set.withoutKeys {
		all = append(all, messageKey.String(d.ID))
	}
	opts := []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindConsumer), trace.WithAttributes(all...)}
	if d.Attempt > 1 {
		opts = append(opts, trace.WithNewRoot())
		if sender := trace.LinkFromContext(ctx); sender.SpanContext.IsValid() {
			opts = append(opts, trace.WithLinks(sender))
		}
	}
	return t.tracer.Start(ctx, "process "+q.Name(), opts...)
}

// end ends the span of an attempt.
func end(span trace.Span, failure string, err error) {
	if err != nil {
		failure = string(queue.Failed)
		span.RecordError(err)
	}
	if failure != "" {
		fail(span, failure)
	}
	span.End()
}
