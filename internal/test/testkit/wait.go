package testkit

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Patience is the limit for what must happen at some time on a machine under
// load.
const Patience = 30 * time.Second

// limitParts is the number of parts of a wait's limit. While this process does
// not run, at most one part passes. So a machine that is slow, or stands still
// for a moment, has that much longer.
const limitParts = 20

// Eventually waits until ok returns true, and fails the test after limit. It is
// for what another process or a timer does.
func Eventually(t testing.TB, limit time.Duration, ok func() bool, what string) {
	t.Helper()
	left := limit
	for last := time.Now(); !ok(); time.Sleep(time.Millisecond) {
		require.Positive(t, left, "not within %v: %s", limit, what)
		now := time.Now()
		left -= min(now.Sub(last), limit/limitParts)
		last = now
	}
}

// Await waits for a value for up to limit, and reports whether one came.
func Await[T any](from <-chan T, limit time.Duration) (value T, ok bool) {
	for range limitParts {
		select {
		case value = <-from:
			return value, true
		case <-time.After(limit / limitParts):
		}
	}
	return value, false
}

// Next waits for a value, or for the end of the channel. Without either it
// fails the test with the message.
func Next[T any](t testing.TB, from <-chan T, message ...any) T {
	t.Helper()
	value, ok := Await(from, Patience)
	require.True(t, ok, message...)
	return value
}

// EndedWithin waits for a context to be cancelled and returns its cause.
func EndedWithin(t testing.TB, ctx context.Context, limit time.Duration) error {
	t.Helper()
	_, ok := Await(ctx.Done(), limit)
	require.True(t, ok, "the context did not end within %v", limit)
	return context.Cause(ctx)
}

// Async runs f on a goroutine that the test waits for.
func Async(t testing.TB, f func() error) <-chan error {
	t.Helper()
	result := make(chan error, 1)
	var group sync.WaitGroup
	group.Go(func() { result <- f() })
	t.Cleanup(group.Wait)
	return result
}

// ResultWithin waits for the result of Async.
func ResultWithin(t testing.TB, result <-chan error, limit time.Duration) error {
	t.Helper()
	err, ok := Await(result, limit)
	require.True(t, ok, "no result within %v", limit)
	return err
}

// AllWithin waits for the results of Async, which must be no errors.
func AllWithin(t testing.TB, results []<-chan error, limit time.Duration) {
	t.Helper()
	for _, result := range results {
		require.NoError(t, ResultWithin(t, result, limit))
	}
}

// Later returns the later of two times.
func Later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// Each runs a parallel subtest for each case.
func Each[C any](t *testing.T, cases map[string]C, test func(t *testing.T, name string, c C)) {
	t.Helper()
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, name, c)
		})
	}
}
