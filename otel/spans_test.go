package relockotel_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
	relockotel "github.com/relock-go/relock/otel"
)

// events keeps what the hooks of a client were called with.
type events struct {
	mu    sync.Mutex
	done  relock.LockDone
	ended relock.HoldDone
}

func (e *events) observer() relock.Observer {
	return relock.Observer{
		LockDone: func(_ context.Context, d relock.LockDone) {
			e.mu.Lock()
			defer e.mu.Unlock()
			e.done = d
		},
		HoldDone: func(_ context.Context, d relock.HoldDone) {
			e.mu.Lock()
			defer e.mu.Unlock()
			e.ended = d
		},
	}
}

// A call that waits, and the hold that is lost afterwards, are spans of the
// request, with the times of the hooks.
func TestSpansOfAWaitAndALoss(t *testing.T) {
	t.Parallel()
	l, s, seen := newLab(t), redistest.Start(t), &events{}
	c := newClient(t, s, relock.WithObserver(seen.observer()), relock.WithObserver(l.Locks()))
	other := relock.NewRedisLock("k", newClient(t, s))
	require.NoError(t, other.Lock(t.Context()))
	ctx, request := l.tracer.Start(t.Context(), "request")
	holds := make(chan relock.Hold, 1)
	result := testkit.Async(t, func() error {
		h, err := relock.NewRedisLock("k", c, relock.WithBlock(), relock.WithWatchdog(time.Second)).Acquire(ctx)
		holds <- h
		return err
	})
	testkit.Eventually(t, testkit.Patience, func() bool { return c.Stats().Waiting == 1 }, "it waits")
	require.NoError(t, other.Unlock(t.Context()))
	require.NoError(t, testkit.ResultWithin(t, result, testkit.Patience))
	h := <-holds
	testkit.Eventually(t, testkit.Patience, func() bool {
		s.Do(t, "DEL", "relock:{k}") // the claim of what was handed off may put it back once
		return h.Err() != nil
	}, "it is lost")
	require.ErrorIs(t, h.Err(), relock.ErrLockLost)

	acquire, hold := l.ended("acquire lock", 1)[0], l.ended("hold lock", 1)[0]
	require.Equal(t, "relock.key=k,relock.kind=plain,relock.outcome=ok,relock.waited=true", attributesOf(acquire))
	require.Equal(t, "relock.key=k,relock.kind=plain,relock.outcome=lost", attributesOf(hold))
	require.Equal(t, sdktrace.Status{Code: codes.Unset}, acquire.Status())
	require.Equal(t, sdktrace.Status{Code: codes.Error, Description: "lost"}, hold.Status())
	for _, span := range []sdktrace.ReadOnlySpan{acquire, hold} {
		require.Equal(t, request.SpanContext().SpanID(), span.Parent().SpanID())
		require.Equal(t, trace.SpanKindInternal, span.SpanKind())
	}
	seen.mu.Lock()
	defer seen.mu.Unlock()
	require.True(t, seen.done.Start.Equal(acquire.StartTime()) && seen.done.End.Equal(acquire.EndTime()))
	require.True(t, seen.ended.Start.Equal(hold.StartTime()) && seen.ended.End.Equal(hold.EndTime()))
}

// Which outcomes are errors of a span.
func TestStatusOfSpans(t *testing.T) {
	t.Parallel()
	failures := map[string]bool{
		"lost": true, "unconfirmed": true, "denied": true, "invalid": true, "unavailable": true, "other": true,
		"forced": true, "max_hold": true,
	}
	l := newLab(t)
	ctx, request := l.tracer.Start(t.Context(), "request")
	defer request.End()
	for outcome, err := range errorsOfCalls {
		l.Locks().LockDone(ctx, relock.LockDone{LockStart: relock.LockStart{Key: string(outcome)}, Err: err})
	}
	for outcome, err := range errorsOfHolds {
		l.Locks().HoldDone(ctx, relock.HoldDone{Key: outcome, Err: err})
	}
	spans := l.spans.Ended()
	require.Len(t, spans, len(errorsOfCalls)+len(errorsOfHolds))
	for _, span := range spans {
		outcome := valueOf(span, "relock.outcome")
		require.Equal(t, outcome, valueOf(span, "relock.key"))
		require.Equal(t, failures[outcome], span.Status().Code == codes.Error, outcome)
	}
}

func valueOf(span sdktrace.ReadOnlySpan, key string) string {
	for _, one := range span.Attributes() {
		if string(one.Key) == key {
			return one.Value.Emit()
		}
	}
	return ""
}

// There is no span without one that records: no roots, and nothing for requests
// that are not sampled, or that have ended.
func TestNoSpanWithoutARequest(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	ended, request := l.tracer.Start(t.Context(), "request")
	request.End()
	unsampled, request := sdktrace.NewTracerProvider(sdktrace.WithSampler(sdktrace.NeverSample())).Tracer("").
		Start(t.Context(), "request")
	defer request.End()
	c := newClient(t, redistest.Start(t), relock.WithObserver(l.Locks()))
	for _, ctx := range []context.Context{t.Context(), ended, unsampled} {
		h, err := relock.NewRedisLock("k", c).Acquire(ctx)
		require.NoError(t, err)
		require.NoError(t, h.Unlock(ctx))
	}
	require.Len(t, l.spans.Ended(), 1, "the request itself")
	require.InDelta(t, 3, l.points("relock.hold.duration")["relock.kind=plain,relock.outcome=ok"], 0)
}

// A key is left out of spans if that is asked for.
func TestWithoutKeys(t *testing.T) {
	t.Parallel()
	l := newLab(t, relockotel.WithoutKeys())
	ctx, request := l.tracer.Start(t.Context(), "request")
	defer request.End()
	l.Locks().LockDone(ctx, relock.LockDone{LockStart: relock.LockStart{Key: "alice", Kind: "read"}})
	l.Locks().HoldDone(ctx, relock.HoldDone{Key: "alice", Kind: "read"})
	require.Equal(t, "relock.kind=read,relock.outcome=ok,relock.waited=false", attributesOf(l.ended("acquire lock", 1)[0]))
	require.Equal(t, "relock.kind=read,relock.outcome=ok", attributesOf(l.ended("hold lock", 1)[0]))
}
