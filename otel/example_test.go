package relockotel_test

import (
	"context"
	"fmt"
	"log"
	"slices"

	"go.opentelemetry.io/otel/propagation"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/redistest"
	relockotel "github.com/relock-go/relock/otel"
	"github.com/relock-go/relock/queue"
)

// A client and a queue are measured. A program has an exporter in place of the
// reader.
func Example() {
	server, stopServer, err := redistest.Launch() // yours is at localhost:6379
	check(err)
	defer stopServer()
	reader := sdkmetric.NewManualReader()
	telemetry, err := relockotel.New(
		relockotel.WithMeterProvider(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))),
		relockotel.WithName(func(key string) string { return key[:len("order")] }))
	check(err)
	client, err := relock.NewClient(server.Network, server.Address, "", relock.WithObserver(telemetry.Locks()))
	check(err)
	defer client.Close()
	mails, err := queue.New("mails", client, queue.WithObserver(telemetry.Queues()))
	check(err)
	stop, err := telemetry.Watch(client, mails)
	check(err)
	defer stop() // before the client is closed

	err = relock.NewRedisLock("order/42", client).Do(context.Background(), func(ctx context.Context) error {
		_, err := telemetry.Enqueue(ctx, mails, queue.Task{Payload: []byte("your order was sent")})
		return err
	})
	check(err)

	var all metricdata.ResourceMetrics
	check(reader.Collect(context.Background(), &all))
	names := []string{}
	for _, m := range all.ScopeMetrics[0].Metrics {
		names = append(names, m.Name)
	}
	slices.Sort(names)
	fmt.Println(names[1:4])
	// Output:
	// [relock.acquire.duration relock.connections relock.held]
}

// The trace of a request goes on where its task is processed.
func ExampleTelemetry_Process() {
	server, stopServer, err := redistest.Launch() // yours is at localhost:6379
	check(err)
	defer stopServer()
	client, err := relock.NewClient(server.Network, server.Address, "")
	check(err)
	defer client.Close()
	mails, err := queue.New("mails", client)
	check(err)
	spans := tracetest.NewSpanRecorder() // an exporter in a program
	tracers := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))
	telemetry, err := relockotel.New(
		relockotel.WithTracerProvider(tracers),
		relockotel.WithPropagator(propagation.TraceContext{}),
		relockotel.WithoutKeys())
	check(err)

	request, span := tracers.Tracer("shop").Start(context.Background(), "order")
	_, err = telemetry.Enqueue(request, mails, queue.Task{Payload: []byte("your order was sent")})
	check(err)
	span.End()

	ctx, stop := context.WithCancel(context.Background())
	check(mails.Process(ctx, telemetry.Process(mails, func(context.Context, *queue.Delivery) error {
		stop()
		return nil
	})))
	for _, one := range spans.Ended() {
		fmt.Println(one.Name(), one.SpanContext().TraceID() == span.SpanContext().TraceID())
	}
	// Output:
	// send mails true
	// order true
	// process mails true
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
