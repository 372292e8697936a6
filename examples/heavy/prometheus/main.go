// Prometheus serves metrics of locks to Prometheus, by the exporter of
// OpenTelemetry. It needs only Go, see quickstart.
package main

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/otlptranslator"
	exporter "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/examples/internal/embedded"
	relockotel "github.com/relock-go/relock/otel"
)

// measured returns the handler of /metrics, and what measures for it.
func measured() (http.Handler, *relockotel.Telemetry, error) {
	registry := prometheus.NewRegistry()
	reader, err := exporter.New(exporter.WithRegisterer(registry), exporter.WithoutScopeInfo(),
		exporter.WithTranslationStrategy(otlptranslator.UnderscoreEscapingWithSuffixes))
	if err != nil {
		return nil, nil, err
	}
	t, err := relockotel.New(relockotel.WithMeterProvider(metric.NewMeterProvider(metric.WithReader(reader))),
		relockotel.WithName(func(key string) string { return strings.Split(key, "/")[0] }))
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{}), t, err
}

func main() { embedded.Main(run) }

func run(ctx context.Context, out io.Writer, url string) error {
	handler, t, err := measured() // http.Handle("/metrics", handler) in a service
	if err != nil {
		return err
	}
	client, err := relock.NewClientURL(url, relock.WithObserver(t.Locks()))
	if err != nil {
		return err
	}
	defer client.Close() //nolint:errcheck // nothing is held by then
	stop, err := t.Watch(client)
	if err != nil {
		return err
	}
	defer stop()
	return relock.NewRedisLock("order/42", client).Do(ctx, func(context.Context) error {
		scrape := httptest.NewRecorder()
		handler.ServeHTTP(scrape, httptest.NewRequest(http.MethodGet, "/metrics", nil))
		_, lines, _ := strings.Cut(scrape.Body.String(), "# TYPE relock_held gauge\n")
		_, err := io.WriteString(out, strings.Split(lines, "#")[0])
		return err
	})
}
