package relockotel_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
	relockotel "github.com/relock-go/relock/otel"
	"github.com/relock-go/relock/queue"
)

var propagators = propagation.NewCompositeTextMapPropagator(propagation.TraceContext{}, propagation.Baggage{})

// lab has a Telemetry that keeps its metrics and spans in memory.
type lab struct {
	testing.TB
	*relockotel.Telemetry
	reader *sdkmetric.ManualReader
	spans  *tracetest.SpanRecorder
	tracer trace.Tracer // of requests, which are sampled
}

func newLab(t testing.TB, opts ...relockotel.Option) *lab {
	t.Helper()
	l := &lab{TB: t, reader: sdkmetric.NewManualReader(), spans: tracetest.NewSpanRecorder()}
	meters := sdkmetric.NewMeterProvider(sdkmetric.WithReader(l.reader))
	tracers := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(l.spans))
	t.Cleanup(func() {
		require.NoError(t, meters.Shutdown(context.Background()))
		require.NoError(t, tracers.Shutdown(context.Background()))
	})
	l.tracer = tracers.Tracer("requests")
	own := []relockotel.Option{
		relockotel.WithMeterProvider(meters), relockotel.WithTracerProvider(tracers),
		relockotel.WithPropagator(propagators),
	}
	var err error
	l.Telemetry, err = relockotel.New(append(own, opts...)...)
	require.NoError(t, err)
	return l
}

// collect returns all metrics by their names.
func (l *lab) collect() map[string]metricdata.Metrics {
	l.Helper()
	var all metricdata.ResourceMetrics
	require.NoError(l, l.reader.Collect(context.Background(), &all))
	found := map[string]metricdata.Metrics{}
	for _, of := range all.ScopeMetrics {
		require.Equal(l, "github.com/relock-go/relock/otel", of.Scope.Name)
		for _, m := range of.Metrics {
			found[m.Name] = m
		}
	}
	return found
}

// points returns the points of a metric by their attributes: the count of a
// histogram, and the value of any other metric.
func (l *lab) points(name string) map[string]float64 {
	l.Helper()
	found := map[string]float64{}
	switch data := l.collect()[name].Data.(type) {
	case nil:
	case metricdata.Histogram[float64]:
		for _, p := range data.DataPoints {
			found[encoded(p.Attributes)] = float64(p.Count)
		}
	case metricdata.Sum[int64]:
		for _, p := range data.DataPoints {
			found[encoded(p.Attributes)] = float64(p.Value)
		}
	case metricdata.Gauge[int64]:
		for _, p := range data.DataPoints {
			found[encoded(p.Attributes)] = float64(p.Value)
		}
	case metricdata.Gauge[float64]:
		for _, p := range data.DataPoints {
			found[encoded(p.Attributes)] = p.Value
		}
	default:
		require.Fail(l, "of another type", "%s: %T", name, data)
	}
	return found
}

func encoded(set attribute.Set) string { return set.Encoded(attribute.DefaultEncoder()) }

// ended waits for n spans with this name to end, and returns them.
func (l *lab) ended(name string, n int) (found []sdktrace.ReadOnlySpan) {
	l.Helper()
	testkit.Eventually(l, testkit.Patience, func() bool {
		found = nil
		for _, span := range l.spans.Ended() {
			if span.Name() == name {
				found = append(found, span)
			}
		}
		return len(found) >= n
	}, name)
	require.Len(l, found, n)
	return found
}

// attributesOf returns the attributes of a span as text.
func attributesOf(span sdktrace.ReadOnlySpan) string {
	return encoded(attribute.NewSet(span.Attributes()...))
}

func newClient(t testing.TB, s *redistest.Server, opts ...relock.ClientOption) *relock.Client {
	t.Helper()
	c, err := relock.NewClient(s.Network, s.Address, "", opts...)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// newQueue returns a queue whose tasks the lab measures.
func (l *lab) newQueue(c *relock.Client, name string, opts ...queue.Option) *queue.Queue {
	l.Helper()
	q, err := queue.New(name, c, append(opts, queue.WithObserver(l.Queues()))...)
	require.NoError(l, err)
	return q
}

// enqueue is Enqueue for tests that need its error only. A lab without a
// Telemetry adds nothing to the tasks.
func (l *lab) enqueue(ctx context.Context, q *queue.Queue, tasks ...queue.Task) error {
	_, err := l.Enqueue(ctx, q, tasks...)
	return err
}
