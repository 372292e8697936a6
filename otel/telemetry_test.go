package relockotel_test

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/redistest"
	relockotel "github.com/relock-go/relock/otel"
	"github.com/relock-go/relock/queue"
)

// All mistakes in options are one error.
func TestMistakes(t *testing.T) {
	t.Parallel()
	_, err := relockotel.New(nil, relockotel.WithMeterProvider(nil), relockotel.WithTracerProvider(nil),
		relockotel.WithPropagator(nil), relockotel.WithName(nil))
	require.ErrorIs(t, err, relock.ErrInvalid)
	require.EqualError(t, err, "relock: new telemetry: invalid: opts[0]: Option is nil; WithMeterProvider: is nil; "+
		"WithTracerProvider: is nil; WithPropagator: is nil; WithName: is nil")
}

// A Telemetry that was not made by New does nothing, and so does one with the
// global providers, which are not set here.
func TestWithoutTelemetry(t *testing.T) {
	t.Parallel()
	global, err := relockotel.New()
	require.NoError(t, err)
	s := redistest.Start(t)
	for name, telemetry := range map[string]*relockotel.Telemetry{"nil": nil, "zero": {}, "global": global} {
		c := newClient(t, s, relock.WithObserver(telemetry.Locks()))
		require.NoError(t, relock.NewRedisLock("k", c).Do(t.Context(), func(context.Context) error { return nil }))
		q, err := queue.New(name, c, queue.WithObserver(telemetry.Queues()))
		require.NoError(t, err)
		stop, err := telemetry.Watch(c, q)
		require.NoError(t, err)
		require.NoError(t, (&lab{Telemetry: telemetry}).enqueue(t.Context(), q, queue.Task{ID: "1"}))
		ctx, cancel := context.WithCancel(t.Context())
		require.NoError(t, q.Process(ctx, telemetry.Process(q, func(context.Context, *queue.Delivery) error {
			cancel()
			return nil
		})))
		stop()
		require.Nil(t, telemetry.Process(q, nil))
	}
}

// Each metric is in the documentation of the package, and each one there is
// measured.
func TestDocumentedMetrics(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("doc.go")
	require.NoError(t, err)
	var documented []string
	for _, found := range regexp.MustCompile(`(?m)^//\t((?:relock|messaging)\.\S+)`).FindAllStringSubmatch(string(text),
		-1) {
		documented = append(documented, found[1])
	}
	l := newLab(t)
	c := newClient(t, redistest.Start(t), relock.WithObserver(l.Locks()))
	q := l.newQueue(c, "mails")
	l.watch(c, q)
	h, err := relock.NewRedisLock("k", c).Acquire(t.Context())
	require.NoError(t, err)
	require.NoError(t, h.Extend(t.Context(), time.Minute))
	require.NoError(t, h.Unlock(t.Context()))
	require.NoError(t, l.enqueue(t.Context(), q, queue.Task{}))
	got, err := q.TryReceive(t.Context(), 1)
	require.NoError(t, err)
	require.NoError(t, got[0].Ack(t.Context()))
	l.Queues().Overdue(t.Context(), queue.Overdue{Queue: "mails"}) // a real one takes a second: TestOverdue
	var measured []string
	for name := range l.collect() {
		measured = append(measured, name)
	}
	require.ElementsMatch(t, measured, documented)
}

// No attribute has a password, an address, an owner or an id, also if calls
// fail. The key of a lock is in spans only.
func TestSecrets(t *testing.T) {
	t.Parallel()
	const password, owner, key = "hunter2", "alice", "order/4711"
	s := redistest.StartTCP(t)
	s.Do(t, "ACL", "SETUSER", "app", "on", ">"+password, "~*", "&*", "+@all")
	l := newLab(t)
	c, err := relock.NewClient(s.Network, s.Address, password, relock.WithUsername("app"), relock.WithObserver(l.Locks()))
	require.NoError(t, err)
	defer c.Close() //nolint:errcheck // the server ends, too
	q := l.newQueue(c, "mails")
	l.watch(c, q)
	ctx, request := l.tracer.Start(relock.ContextWithOwner(t.Context(), owner), "request")
	defer request.End()
	lock := relock.NewReentrantLock(key, c)
	require.NoError(t, lock.Do(ctx, func(ctx context.Context) error {
		require.Error(t, relock.NewRedisLock(key, c).TryLock(ctx))
		return nil
	}))
	require.NoError(t, l.enqueue(ctx, q, queue.Task{Key: owner, Payload: []byte(password)}))
	metrics := texts(t, l.collect())
	s.Do(t, "ACL", "SETUSER", "app", "resetpass", ">other")
	s.Do(t, "CLIENT", "KILL", "USER", "app")
	require.ErrorIs(t, lock.Lock(ctx), relock.ErrDenied)
	require.Error(t, l.enqueue(ctx, q, queue.Task{}))
	s.Kill(t)
	require.Error(t, lock.Lock(ctx))

	spans := ""
	for _, span := range l.spans.Ended() {
		spans += texts(t, span.Name(), attributesOf(span), span.Status(), span.Events())
	}
	for _, text := range []string{metrics, spans} {
		for _, secret := range []string{password, owner, s.Address, "redis://"} {
			require.NotContains(t, text, secret)
		}
		require.NotRegexp(t, `[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`, text)
	}
	require.NotContains(t, metrics, key)
	require.Contains(t, spans, key)
	require.Contains(t, spans, "denied")
}

func texts(t *testing.T, values ...any) string {
	t.Helper()
	text, err := json.Marshal(values)
	require.NoError(t, err)
	return string(text)
}

// A program that imports the package compiles no more than these modules.
func TestDependencies(t *testing.T) {
	t.Parallel()
	list := exec.Command("go", "list", "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}", ".")
	list.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=")
	out, err := list.Output()
	require.NoError(t, err)
	modules := strings.Fields(string(out))
	slices.Sort(modules)
	require.Equal(t, []string{
		"github.com/go-logr/logr", "github.com/go-logr/stdr", "github.com/gomodule/redigo", "github.com/google/uuid",
		"github.com/petermattis/goid",
		"github.com/relock-go/relock", "github.com/relock-go/relock/otel", "go.opentelemetry.io/auto/sdk",
		"go.opentelemetry.io/otel",
		"go.opentelemetry.io/otel/metric", "go.opentelemetry.io/otel/trace",
	}, slices.Compact(modules))
}
