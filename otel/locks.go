package relockotel

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/relock-go/relock"
)

// lockMetrics has what the hooks of locks measure.
type lockMetrics struct {
	acquire, hold, renewal metric.Float64Histogram

	calls    *series[callLabels]
	holds    *series[holdLabels]
	renewals *series[renewalLabels]
}

func newLockMetrics(m *maker) lockMetrics {
	return lockMetrics{
		acquire:  m.seconds("relock.acquire.duration", "Time of a call that acquires a lock, whatever came of it."),
		hold:     m.seconds("relock.hold.duration", "Time from the grant of a lock to the end of the hold."),
		renewal:  m.seconds("relock.renewal.duration", "Time of an attempt to renew a lease."),
		calls:    newSeries[callLabels](),
		holds:    newSeries[holdLabels](),
		renewals: newSeries[renewalLabels](),
	}
}

// Locks returns the observer to give to [relock.WithObserver], for any number
// of clients. It measures each call, hold and renewal, and makes the spans of
// calls and holds. See [Telemetry.Watch] for the gauges.
func (t *Telemetry) Locks() relock.Observer {
	if !t.isMade() {
		return relock.Observer{}
	}
	return relock.Observer{LockDone: t.lockDone, HoldDone: t.holdDone, RenewDone: t.renewDone}
}

func (t *Telemetry) lockDone(ctx context.Context, e relock.LockDone) {
	outcome := string(relock.OutcomeOf(e.Err))
	p := t.locks.calls.of(callLabels{e.Kind, outcome, e.Waited, t.set.name(e.Key)})
	t.locks.acquire.Record(ctx, e.End.Sub(e.Start).Seconds(), p.record...)
	if records(ctx) {
		t.span(ctx, "acquire lock", e.Key, outcome, e.Start, e.End, kindKey.String(e.Kind), waitedKey.Bool(e.Waited))
	}
}

func (t *Telemetry) holdDone(ctx context.Context, e relock.HoldDone) {
	outcome := outcomeOfHold(e.Err)
	p := t.locks.holds.of(holdLabels{e.Kind, outcome, t.set.name(e.Key)})
	t.locks.hold.Record(ctx, e.End.Sub(e.Start).Seconds(), p.record...)
	if records(ctx) {
		t.span(ctx, "hold lock", e.Key, outcome, e.Start, e.End, kindKey.String(e.Kind))
	}
}

func (t *Telemetry) renewDone(ctx context.Context, e relock.RenewDone) {
	p := t.locks.renewals.of(renewalLabels(relock.OutcomeOf(e.Err)))
	t.locks.renewal.Record(ctx, e.End.Sub(e.Start).Seconds(), p.record...)
}

// endsOfHolds is how a hold ends without its Unlock being confirmed. The first
// one that applies counts.
var endsOfHolds = []struct {
	reason  error
	outcome string
}{
	{relock.ErrForced, "forced"},
	{relock.ErrMaxHold, "max_hold"},
	{relock.ErrLockLost, "lost"},
	{relock.ErrClosed, "closed"},
	{relock.ErrUnconfirmed, "unconfirmed"},
}

// outcomeOfHold returns the outcome of a hold that ended with err.
func outcomeOfHold(err error) string {
	if err == nil {
		return "ok"
	}
	for _, row := range endsOfHolds {
		if errors.Is(err, row.reason) {
			return row.outcome
		}
	}
	return other
}

// records reports whether the span in ctx records.
func records(ctx context.Context) bool { return trace.SpanFromContext(ctx).IsRecording() }

// span makes a span of what has ended.
func (t *Telemetry) span(
	ctx context.Context, name, key, outcome string, start, end time.Time, all ...attribute.KeyValue,
) {
	all = append(all, outcomeKey.String(outcome))
	if !t.set.withoutKeys {
		all = append(all, keyKey.String(key))
	}
	_, span := t.tracer.Start(ctx, name, trace.WithTimestamp(start), trace.WithAttributes(all...))
	if isFailure(outcome) {
		span.SetStatus(codes.Error, outcome)
	}
	span.End(trace.WithTimestamp(end))
}

// isFailure reports whether an outcome is an error. It is none if others hold
// the lock, or if the caller did not want it any more. A call that ended with
// the loss of an outer hold is one.
func isFailure(outcome string) bool {
	switch relock.Outcome(outcome) {
	case relock.OutcomeOK, relock.OutcomeBusy, relock.OutcomeCanceled, relock.OutcomeTimeout, relock.OutcomeClosed:
		return false
	}
	return true
}
