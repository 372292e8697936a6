package relockotel

import (
	"errors"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/relock-go/relock"
)

// scope is the name of the meter and of the tracer.
const scope = "github.com/relock-go/relock/otel"

// Telemetry has the instruments for clients and queues. It is safe for
// concurrent use. One that was not made by [New] measures and traces nothing.
type Telemetry struct {
	set    settings
	tracer trace.Tracer
	locks  lockMetrics
	tasks  taskMetrics
	gauges gauges

	watched   watched
	shortened shortened
}

// New returns instruments for clients and queues. Without options it uses the
// global providers. All mistakes in the options are in one error, which matches
// [relock.ErrInvalid]. An error of the meter is returned, too.
//
// One Telemetry is enough for a program. It needs no closing.
func New(opts ...Option) (*Telemetry, error) {
	s, err := settingsOf(opts)
	if err != nil {
		return nil, wrap("new telemetry", err)
	}
	t := &Telemetry{set: s, tracer: s.tracers.Tracer(scope)}
	m := &maker{meter: s.meters.Meter(scope)}
	t.locks, t.tasks, t.gauges = newLockMetrics(m), newTaskMetrics(m), newGauges(m)
	m.observe(t.observe, t.gauges.all())
	if err := errors.Join(m.errs...); err != nil {
		return nil, wrap("new telemetry", err)
	}
	return t, nil
}

// isMade reports whether t was made by New.
func (t *Telemetry) isMade() bool { return t != nil && t.tracer != nil }

func wrap(op string, err error) error { return &relock.Error{Op: op, Err: err} }

// maker makes instruments, and collects what goes wrong.
type maker struct {
	meter metric.Meter
	errs  []error
}

// bounds are those of all histograms, in seconds.
var bounds = []float64{
	.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60,
}

func (m *maker) check(err error) {
	if err != nil {
		m.errs = append(m.errs, err)
	}
}

func (m *maker) seconds(name, what string) metric.Float64Histogram {
	h, err := m.meter.Float64Histogram(name,
		metric.WithUnit("s"), metric.WithDescription(what), metric.WithExplicitBucketBoundaries(bounds...))
	m.check(err)
	return h
}

func (m *maker) counter(name, unit, what string) metric.Int64Counter {
	c, err := m.meter.Int64Counter(name, metric.WithUnit(unit), metric.WithDescription(what))
	m.check(err)
	return c
}

func (m *maker) total(name, unit, what string) metric.Int64ObservableCounter {
	c, err := m.meter.Int64ObservableCounter(name, metric.WithUnit(unit), metric.WithDescription(what))
	m.check(err)
	return c
}

func (m *maker) sum(name, unit, what string) metric.Int64ObservableUpDownCounter {
	c, err := m.meter.Int64ObservableUpDownCounter(name, metric.WithUnit(unit), metric.WithDescription(what))
	m.check(err)
	return c
}

func (m *maker) number(name, unit, what string) metric.Int64ObservableGauge {
	g, err := m.meter.Int64ObservableGauge(name, metric.WithUnit(unit), metric.WithDescription(what))
	m.check(err)
	return g
}

func (m *maker) age(name, what string) metric.Float64ObservableGauge {
	g, err := m.meter.Float64ObservableGauge(name, metric.WithUnit("s"), metric.WithDescription(what))
	m.check(err)
	return g
}

func (m *maker) observe(f metric.Callback, all []metric.Observable) {
	_, err := m.meter.RegisterCallback(f, all...)
	m.check(err)
}
