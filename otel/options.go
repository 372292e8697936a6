package relockotel

import (
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/relock-go/relock/internal/lockspec"
)

// An Option configures a [Telemetry].
type Option func(*settings)

type settings struct {
	meters      metric.MeterProvider
	tracers     trace.TracerProvider
	propagator  propagation.TextMapPropagator
	name        func(key string) string
	withoutKeys bool
}

func defaults() settings {
	return settings{
		meters: otel.GetMeterProvider(), tracers: otel.GetTracerProvider(), propagator: otel.GetTextMapPropagator(),
		name: func(string) string { return "" },
	}
}

// WithMeterProvider sets where the metrics go. The default is the global
// provider, which may be set later.
func WithMeterProvider(p metric.MeterProvider) Option { return func(s *settings) { s.meters = p } }

// WithTracerProvider sets where the spans go. The default is the global
// provider, which may be set later.
func WithTracerProvider(p trace.TracerProvider) Option { return func(s *settings) { s.tracers = p } }

// WithPropagator sets how the context of a trace travels in the headers of
// tasks. The default is the global propagator, which may be set later, and
// passes on nothing until then.
func WithPropagator(p propagation.TextMapPropagator) Option {
	return func(s *settings) { s.propagator = p }
}

// WithName sets a function that returns a name of few values for the key of a
// lock, such as "order" for "order/42". Metrics of locks then have it as the
// attribute relock.name. An empty name is none. The key of a [relock.MultiLock]
// is all its names, separated by commas. By default no metric has a name, since
// each key would be a time series.
//
// The function runs in the hooks of [relock.Observer]: it must return quickly,
// and must neither panic nor use locks.
func WithName(name func(key string) string) Option { return func(s *settings) { s.name = name } }

// WithoutKeys leaves out the keys of locks and the ids of tasks, which may be
// personal data, from spans. Metrics never have them.
func WithoutKeys() Option { return func(s *settings) { s.withoutKeys = true } }

// settingsOf returns the settings, or all mistakes in them in one error.
func settingsOf(opts []Option) (settings, error) {
	s := defaults()
	var m lockspec.Problems
	for i, opt := range opts {
		if m.Check(opt != nil, "opts[%d]: Option is nil", i); opt != nil {
			opt(&s)
		}
	}
	m.Check(s.meters != nil, "WithMeterProvider: is nil")
	m.Check(s.tracers != nil, "WithTracerProvider: is nil")
	m.Check(s.propagator != nil, "WithPropagator: is nil")
	m.Check(s.name != nil, "WithName: is nil")
	return s, m.Err()
}
