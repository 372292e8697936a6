package relockotel_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/resource"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
	relockotel "github.com/relock-go/relock/otel"
	"github.com/relock-go/relock/queue"
)

// watch watches a client until the test ends, before the client is closed.
func (l *lab) watch(c *relock.Client, queues ...*queue.Queue) (stop func()) {
	l.Helper()
	stop, err := l.Watch(c, queues...)
	require.NoError(l, err)
	l.Cleanup(stop)
	return stop
}

func (l *lab) value(name string) float64 {
	l.Helper()
	points := l.points(name)
	require.Len(l, points, 1, name)
	return points[""]
}

// Two clients of a process add up. One that is no longer watched observes
// nothing, and counters do not fall.
func TestGaugesOfClients(t *testing.T) {
	t.Parallel()
	l, s := newLab(t), redistest.Start(t)
	require.Empty(t, l.collect(), "nothing is watched")
	one, other := newClient(t, s), newClient(t, s)
	stop, stopOther := l.watch(one), l.watch(other)
	require.NoError(t, relock.NewRedisLock("a", one).Lock(t.Context()))
	h, err := relock.NewRedisLock("b", other, relock.WithWatchdog(time.Second)).Acquire(t.Context())
	require.NoError(t, err)
	waits := testkit.Async(t, func() error {
		return relock.NewRedisLock("a", other, relock.WithBlock()).Lock(h.Context())
	})
	testkit.Eventually(t, testkit.Patience, func() bool { return l.value("relock.waiting") == 1 }, "a call waits")
	require.InDelta(t, 2, l.value("relock.held"), 0)
	require.GreaterOrEqual(t, l.value("relock.connections"), 2.)
	require.Positive(t, l.value("relock.oldest_hold"))
	require.Zero(t, l.value("relock.losses"))
	require.Zero(t, l.value("relock.renewal.errors"))

	s.Do(t, "DEL", "relock:{b}")
	require.ErrorIs(t, testkit.EndedWithin(t, h.Context(), testkit.Patience), relock.ErrLockLost)
	require.Error(t, testkit.ResultWithin(t, waits, testkit.Patience))
	testkit.Eventually(t, testkit.Patience, func() bool { return l.value("relock.losses") == 1 }, "the loss is counted")
	stopOther()
	stopOther()
	require.InDelta(t, 1, l.value("relock.held"), 0)
	require.InDelta(t, 1, l.value("relock.losses"), 0, "a counter does not fall")
	stop()
	require.Empty(t, l.collect())
	l.watch(other)
	require.InDelta(t, 1, l.value("relock.losses"), 0, "what it had counted before is not counted again")
}

// Processes are distinguished by their resources.
func TestProcessesAreResources(t *testing.T) {
	t.Parallel()
	const instance = attribute.Key("service.instance.id")
	for _, name := range []string{"first", "second"} {
		reader := sdkmetric.NewManualReader()
		meters := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader),
			sdkmetric.WithResource(resource.NewSchemaless(instance.String(name))))
		telemetry, err := relockotel.New(relockotel.WithMeterProvider(meters))
		require.NoError(t, err)
		stop, err := telemetry.Watch(newClient(t, redistest.Start(t)))
		require.NoError(t, err)
		defer stop()
		var all metricdata.ResourceMetrics
		require.NoError(t, reader.Collect(t.Context(), &all))
		found, there := all.Resource.Set().Value(instance)
		require.True(t, there)
		require.Equal(t, name, found.AsString())
		require.Len(t, all.ScopeMetrics, 1)
	}
}

// Queues are measured at each collection.
func TestGaugesOfQueues(t *testing.T) {
	t.Parallel()
	l, s := newLab(t), redistest.Start(t)
	c := newClient(t, s)
	mails, other := l.newQueue(c, "mails"), l.newQueue(newClient(t, s), "other")
	l.watch(c, mails, other)
	require.NoError(t, l.enqueue(t.Context(), mails, queue.Task{ID: "1"}, queue.Task{ID: "2", Key: "k"},
		queue.Task{ID: "3", Key: "k"}, queue.Task{ID: "4", Delay: time.Hour}, queue.Task{ID: "5"}))
	got, err := mails.TryReceive(t.Context(), 2)
	require.NoError(t, err)
	require.NoError(t, got[0].DeadLetter(t.Context(), nil))
	for name, want := range map[string]float64{
		"ready": 1, "delayed": 1, "in_flight": 1, "behind": 1, "dead": 1, "idle": 0,
	} {
		points := l.points("relock.queue." + name)
		require.Len(t, points, 2, name)
		require.InDelta(t, want, points["messaging.destination.name=mails"], 0, name)
		require.Zero(t, points["messaging.destination.name=other"], name)
	}
	require.Positive(t, l.points("relock.queue.oldest")["messaging.destination.name=mails"])
	pauses := func() (points []float64) {
		for _, name := range []string{"paused", "paused_keys"} {
			both := l.points("relock.queue." + name)
			points = append(points, both["messaging.destination.name=mails"], both["messaging.destination.name=other"])
		}
		return points
	}
	require.Equal(t, []float64{0, 0, 0, 0}, pauses())
	require.NoError(t,
		errors.Join(mails.Pause(t.Context()), other.PauseKey(t.Context(), "a"), other.PauseKey(t.Context(), "b")))
	require.Equal(t, []float64{1, 0, 0, 2}, pauses())
	require.NoError(t, errors.Join(mails.Resume(t.Context()), other.ResumeKey(t.Context(), "a")))
	require.Equal(t, []float64{0, 0, 0, 1}, pauses())
	require.NoError(t, got[1].Ack(t.Context()))
}

// A delivery whose function does not return is counted where it runs, and by no
// other process. It counts no longer once its function has returned.
func TestOverdue(t *testing.T) {
	t.Parallel()
	const mails = "messaging.destination.name=mails"
	l, other, s := newLab(t), newLab(t), redistest.Start(t)
	c := newClient(t, s)
	q := l.newQueue(c, "mails", queue.WithMaxAttempts(1))
	l.watch(c, q)
	another := newClient(t, s)
	other.watch(another, other.newQueue(another, "mails"))
	goOn := make(chan struct{})
	free := sync.OnceFunc(func() { close(goOn) })
	ctx, cancel := context.WithCancel(t.Context())
	done := testkit.Async(t, func() error {
		return q.Process(ctx, func(context.Context, *queue.Delivery) error {
			<-goOn // whatever its context says
			return nil
		}, queue.WithTimeout(30*time.Millisecond))
	})
	t.Cleanup(free) // before Process is waited for
	require.NoError(t, l.enqueue(t.Context(), q, queue.Task{ID: "1"}))
	overdue := func() float64 { return float64(l.points("relock.queue.overdue")[mails]) }
	testkit.Eventually(t, testkit.Patience, func() bool { return overdue() == 1 }, "it is overdue")
	reported := func() bool { return len(l.points("relock.task.overdue")) == 1 }
	testkit.Eventually(t, testkit.Patience, reported, "it is reported")
	require.Equal(t, map[string]float64{mails + ",relock.task.retry=false": 1}, l.points("relock.task.overdue"))
	require.Equal(t, map[string]float64{mails: 0}, other.points("relock.queue.overdue"))
	require.Empty(t, other.points("relock.task.overdue"))
	free()
	testkit.Eventually(t, testkit.Patience, func() bool { return overdue() == 0 }, "it is over")
	require.Len(t, l.points("relock.task.overdue"), 1)
	cancel()
	require.NoError(t, testkit.ResultWithin(t, done, testkit.Patience))
}

// A server that hangs keeps nothing else out of a collection, which has no
// error: a reader that exports would drop the metrics of the whole process. It
// is not parallel, since the error handler is that of the process.
func TestQueueOfAServerThatHangs(t *testing.T) {
	before := otel.GetErrorHandler()
	defer otel.SetErrorHandler(before)
	var reported error
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { reported = errors.Join(reported, err) }))
	l, hung := newLab(t), redistest.Start(t)
	c := newClient(t, hung)
	l.watch(c, l.newQueue(c, "mails"), l.newQueue(newClient(t, redistest.Start(t)), "other"))
	require.Len(t, l.points("relock.queue.ready"), 2)
	require.NoError(t, reported)
	hung.Pause(t)
	defer hung.Resume(t)
	require.Equal(t, map[string]float64{"messaging.destination.name=other": 0}, l.points("relock.queue.ready"))
	require.ErrorContains(t, reported, `"mails"`)
	require.NotContains(t, reported.Error(), `"other"`)
	require.Zero(t, l.value("relock.held"))
}

// Mistakes are one error.
func TestMistakesOfWatch(t *testing.T) {
	t.Parallel()
	l, c := newLab(t), newClient(t, redistest.Start(t))
	mails := l.newQueue(c, "mails")
	l.watch(c, mails)
	_, err := l.Watch(c, l.newQueue(c, "mails"), nil)
	require.ErrorIs(t, err, relock.ErrInvalid)
	require.EqualError(t, err, `relock: watch: invalid: client: is already watched; `+
		`queues[0]: a queue named "mails" is already watched; queues[1]: was not made by New`)
	_, err = l.Watch(nil)
	require.ErrorIs(t, err, relock.ErrInvalid)
	other := newClient(t, redistest.Start(t))
	_, err = l.Watch(other, l.newQueue(other, "twice"), l.newQueue(other, "twice"))
	require.ErrorContains(t, err, "queues[1]")
	l.watch(other)
}
