package relockotel_test

import (
	"context"
	"runtime"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/redistest"
	relockotel "github.com/relock-go/relock/otel"
)

// pair calls the hooks of one pair of lock and unlock.
func pair(ctx context.Context, o relock.Observer, start, end time.Time) {
	o.LockDone(ctx,
		relock.LockDone{LockStart: relock.LockStart{Key: "order/7", Kind: "plain", Block: true}, Start: start, End: end})
	o.HoldDone(ctx, relock.HoldDone{Key: "order/7", Kind: "plain", Start: start, End: end})
}

// contexts are those of requests that are traced, and not.
func contexts(t testing.TB, l *lab) map[string]context.Context {
	t.Helper()
	sampled, request := l.tracer.Start(t.Context(), "request")
	t.Cleanup(func() { request.End() })
	unsampled, other := sdktrace.NewTracerProvider(sdktrace.WithSampler(sdktrace.NeverSample())).Tracer("").
		Start(t.Context(), "request")
	t.Cleanup(func() { other.End() })
	return map[string]context.Context{"plain": t.Context(), "unsampled": unsampled, "sampled": sampled}
}

// ofHold returns the context that the hook of a hold gets, for a call whose
// context has no span and is cancelled by then.
func ofHold(t *testing.T) (ctx context.Context) {
	t.Helper()
	c := newClient(t, redistest.Start(t), relock.WithObserver(relock.Observer{
		HoldDone: func(of context.Context, _ relock.HoldDone) { ctx = of },
	}))
	call, cancel := context.WithCancel(t.Context())
	h, err := relock.NewRedisLock("order/7", c).Acquire(call)
	require.NoError(t, err)
	cancel()
	require.NoError(t, h.Unlock(t.Context()))
	return ctx
}

// named is a name of few values.
func named(key string) string { return key[:5] }

// The metrics of a pair, with a name, cost no allocation. This is measured for
// a request that is not sampled, and with the context of a real hold. It is not
// parallel, because others would count.
func TestAllocationsOfAPair(t *testing.T) {
	l := newLab(t, relockotel.WithName(named))
	o, start := l.Locks(), time.Now()
	all := contexts(t, l)
	all["of a hold"] = ofHold(t)
	for _, name := range []string{"plain", "unsampled", "of a hold"} {
		pair(all[name], o, start, start) // makes the series
		require.Zero(t, testing.AllocsPerRun(1000, func() { pair(all[name], o, start, start) }), name)
	}
}

// BenchmarkPair times the hooks of one pair of lock and unlock alone.
func BenchmarkPair(b *testing.B) {
	l := newLab(b, relockotel.WithName(named))
	o, start := l.Locks(), time.Now()
	for name, ctx := range contexts(b, l) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				pair(ctx, o, start, start)
			}
		})
	}
}

// BenchmarkGoroutines compares the pairs a second of 64 goroutines with metrics
// to those without, over a real server. They take turns. It reports the median
// and the quartiles of the ratios: run it with -benchtime=30x or more.
func BenchmarkGoroutines(b *testing.B) {
	// As in a program. The tests have four times as many, and the garbage
	// collector takes its share of each.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(runtime.NumCPU()))
	l, s := newLab(b), redistest.StartTCP(b)
	without, with := newClient(b, s), newClient(b, s, relock.WithObserver(l.Locks()))
	rate := func(c *relock.Client) float64 {
		const goroutines, pairs = 64, 100
		began, done := time.Now(), make(chan error, goroutines)
		for i := range goroutines {
			go func() {
				var err error
				lock := relock.NewRedisLock(strconv.Itoa(i), c)
				for n := 0; n < pairs && err == nil; n++ {
					err = lock.Do(context.Background(), func(context.Context) error { return nil })
				}
				done <- err
			}()
		}
		for range goroutines {
			require.NoError(b, <-done)
		}
		return goroutines * pairs / time.Since(began).Seconds()
	}
	var ratios []float64
	for b.Loop() {
		one, two := rate(without), rate(with)
		three, four := rate(with), rate(without)
		ratios = append(ratios, (two+three)/(one+four))
	}
	slices.Sort(ratios)
	for quarter, unit := range map[int]string{1: "of-without-p25", 2: "of-without", 3: "of-without-p75"} {
		b.ReportMetric(ratios[quarter*len(ratios)/4], unit)
	}
}
