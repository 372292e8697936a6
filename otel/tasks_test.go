package relockotel_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/baggage"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/faults"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
	relockotel "github.com/relock-go/relock/otel"
	"github.com/relock-go/relock/queue"
)

const destination = attribute.Key("messaging.destination.name")

var errTask = errors.New("no such customer")

// noPause retries without a pause.
func noPause(int, error) time.Duration { return 0 }

// sender is another process, which sends a task within a request. It reports
// the trace and the span of the send.
func sender(self *faults.Self) error {
	client, err := relock.NewClient("unix", self.Args[0], "")
	if err != nil {
		return err
	}
	defer client.Close() //nolint:errcheck // the process ends
	q, err := queue.New("mails", client)
	if err != nil {
		return err
	}
	tracers := sdktrace.NewTracerProvider()
	telemetry, err := relockotel.New(relockotel.WithTracerProvider(tracers), relockotel.WithPropagator(propagators))
	if err != nil {
		return err
	}
	ctx, request := tracers.Tracer("requests").Start(context.Background(), "request")
	defer request.End()
	self.Emit("request", request.SpanContext().TraceID(), request.SpanContext().SpanID())
	return (&lab{Telemetry: telemetry}).enqueue(ctx, q, queue.Task{ID: "1", Header: map[string]string{"own": "stays"}})
}

// A trace goes from one process to another. The first attempt is part of it, a
// retry is linked to it, and the dead letter still carries it.
func TestTraceOverTwoProcesses(t *testing.T) {
	t.Parallel()
	l, s := newLab(t), redistest.Start(t)
	child := faults.Spawn(t, "sender", s.Address)
	request := child.Next("request", testkit.Patience).Values
	child.End(testkit.Patience)
	q := l.newQueue(newClient(t, s), "mails", queue.WithMaxAttempts(2), queue.WithBackoff(noPause))
	ctx, stop := context.WithCancel(t.Context())
	ctx, own := l.tracer.Start(ctx, "the worker")
	defer own.End()
	require.NoError(t, q.Process(ctx, l.Process(q, func(ctx context.Context, d *queue.Delivery) error {
		require.True(t, trace.SpanFromContext(ctx).IsRecording())
		require.Equal(t, "stays", d.Header["own"])
		if d.Attempt == 2 {
			stop()
		}
		return errTask
	})))
	spans := l.ended("process mails", 2)
	first, retry := spans[0], spans[1]
	require.Equal(t, request[0], first.SpanContext().TraceID().String())
	require.True(t, first.Parent().IsRemote())
	require.NotEqual(t, request[1], first.Parent().SpanID().String(), "the parent is the send")
	require.Empty(t, first.Links())
	require.False(t, retry.Parent().IsValid())
	require.NotEqual(t, first.SpanContext().TraceID(), retry.SpanContext().TraceID())
	require.Len(t, retry.Links(), 1)
	require.Equal(t, first.Parent().SpanID(), retry.Links()[0].SpanContext.SpanID())
	require.Equal(t, request[0], retry.Links()[0].SpanContext.TraceID().String())
	for attempt, span := range spans {
		require.Equal(t, trace.SpanKindConsumer, span.SpanKind())
		require.Equal(t, sdktrace.Status{Code: codes.Error, Description: "failed"}, span.Status())
		require.Len(t, span.Events(), 1, "the error of the function")
		require.ElementsMatch(t, []attribute.KeyValue{
			attribute.String("messaging.system", "relock"), attribute.String("messaging.operation.name", "process"),
			attribute.String("messaging.operation.type", "process"), destination.String("mails"),
			attribute.String("messaging.message.id", "1"),
			attribute.Int("relock.task.attempt", attempt+1), attribute.String("error.type", "failed"),
		}, span.Attributes())
	}
	for dead, err := range q.DeadLetters(t.Context()) {
		require.NoError(t, err)
		require.Contains(t, dead.Header["traceparent"], request[0])
		require.Equal(t, errTask.Error(), dead.Reason)
	}
	requireTaskMetrics(t, l)
}

func requireTaskMetrics(t *testing.T, l *lab) {
	t.Helper()
	process := "messaging.destination.name=mails,messaging.operation.name=process," +
		"messaging.system=relock,relock.task.outcome="
	require.Equal(t, map[string]float64{
		"error.type=failed," + process + "failed": 1, "error.type=dead," + process + "dead": 1,
	}, l.points("messaging.process.duration"))
	require.Equal(t, map[string]float64{
		"messaging.destination.name=mails,messaging.operation.name=receive,messaging.system=relock": 2,
	}, l.points("messaging.client.consumed.messages"))
	require.Equal(t, map[string]float64{
		"messaging.destination.name=mails,relock.task.retry=false": 1,
		"messaging.destination.name=mails,relock.task.retry=true":  1,
	}, l.points("relock.task.wait.duration"))
}

// A send is a span of the request. Tasks that were not queued are counted with
// their error.
func TestEnqueue(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	q := l.newQueue(newClient(t, redistest.Start(t)), "mails")
	ctx, request := l.tracer.Start(t.Context(), "request")
	defer request.End()
	tasks := []queue.Task{{ID: "1"}, {ID: "2", Header: map[string]string{"own": "stays"}}}
	require.NoError(t, l.enqueue(ctx, q, tasks...))
	require.Equal(t, []queue.Task{{ID: "1"}, {ID: "2", Header: map[string]string{"own": "stays"}}}, tasks,
		"the caller's tasks stay")
	require.ErrorIs(t, l.enqueue(ctx, q, queue.Task{ID: "2"}, queue.Task{ID: "3"}), queue.ErrDuplicate)
	require.ErrorIs(t, l.enqueue(nil, q, queue.Task{}), relock.ErrInvalid) //nolint:staticcheck // refused
	require.ErrorIs(t, l.enqueue(ctx, q, queue.Task{Delay: -1}), relock.ErrInvalid)
	require.ErrorIs(t, l.enqueue(ctx, q, queue.Task{ID: "1"}, queue.Task{Delay: -1}), relock.ErrInvalid)
	spans := l.ended("send mails", 4)
	for i, failure := range []string{"", "duplicate", "invalid", "invalid"} {
		require.Equal(t, request.SpanContext().SpanID(), spans[i].Parent().SpanID())
		require.Equal(t, trace.SpanKindProducer, spans[i].SpanKind())
		require.Equal(t, failure, valueOf(spans[i], "error.type"))
		require.Equal(t, failure, spans[i].Status().Description)
	}
	require.Equal(t, "2", valueOf(spans[0], "messaging.batch.message_count"))
	require.Empty(t, valueOf(spans[2], "messaging.batch.message_count"), "one task is no batch")
	send := "messaging.destination.name=mails,messaging.operation.name=send,messaging.system=relock"
	require.Equal(t, map[string]float64{send: 3, "error.type=duplicate," + send: 2, "error.type=invalid," + send: 2},
		l.points("messaging.client.sent.messages"))
	got, err := q.TryReceive(t.Context(), 10)
	require.NoError(t, err)
	for i, d := range got {
		require.Contains(t, d.Header["traceparent"], spans[min(i/2, 1)].SpanContext().SpanID().String(),
			"all tasks of a call carry its span")
	}
	require.Equal(t, "stays", got[1].Header["own"])
}

// A task of a version without headers begins a trace, whatever the context of
// Process has. A panic is an error of the span.
func TestProcessWithoutATrace(t *testing.T) {
	t.Parallel()
	l := newLab(t, relockotel.WithoutKeys())
	q := l.newQueue(newClient(t, redistest.Start(t)), "mails", queue.WithBackoff(noPause))
	require.NoError(t, (&lab{}).enqueue(t.Context(), q, queue.Task{ID: "alice"}))
	ctx, stop := context.WithCancel(t.Context())
	ctx, own := l.tracer.Start(ctx, "the worker")
	defer own.End()
	require.NoError(t, q.Process(ctx, l.Process(q, func(_ context.Context, d *queue.Delivery) error {
		if d.Attempt == 1 {
			panic("boom")
		}
		stop()
		return nil
	})))
	spans := l.ended("process mails", 2)
	for _, span := range spans {
		require.False(t, span.Parent().IsValid())
		require.Empty(t, span.Links())
		require.Empty(t, valueOf(span, "messaging.message.id"))
	}
	require.Equal(t, sdktrace.Status{Code: codes.Error, Description: "panic"}, spans[0].Status())
	require.Equal(t, sdktrace.Status{Code: codes.Unset}, spans[1].Status())
}

// What does not fit into a header is left out, baggage first, and reported
// once. It is not parallel, since the error handler is that of the process.
func TestHeaderLimit(t *testing.T) {
	var reported atomic.Int32
	before := otel.GetErrorHandler()
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		require.ErrorContains(t, err, `queue "mails": the header of a task would have`)
		reported.Add(1)
	}))
	defer otel.SetErrorHandler(before)
	l := newLab(t)
	q := l.newQueue(newClient(t, redistest.Start(t)), "mails")
	member, err := baggage.NewMember("tenant", strings.Repeat("x", 1000))
	require.NoError(t, err)
	bag, err := baggage.New(member)
	require.NoError(t, err)
	ctx, request := l.tracer.Start(baggage.ContextWithBaggage(t.Context(), bag), "request")
	defer request.End()
	own := func(n int) queue.Task {
		return queue.Task{Header: map[string]string{"own": strings.Repeat("x", n-len("own"))}}
	}
	require.NoError(t, l.enqueue(ctx, q, own(3000)))
	require.Zero(t, reported.Load(), "all of it fits")
	require.NoError(t, l.enqueue(ctx, q, own(4000), own(4096), own(4096-66)))
	require.EqualValues(t, 1, reported.Load())
	require.ErrorIs(t, l.enqueue(ctx, q, own(4097)), relock.ErrInvalid, "the user's own header is too long")
	got, err := q.TryReceive(t.Context(), 10)
	require.NoError(t, err)
	require.Len(t, got, 4)
	for i, keys := range [][]string{
		{"own", "traceparent", "baggage"}, {"own", "traceparent"}, {"own"}, {"own", "traceparent"},
	} {
		require.Len(t, got[i].Header, len(keys), i)
		for _, key := range keys {
			require.NotEmpty(t, got[i].Header[key], "%d: %s", i, key)
		}
	}
}
