package main

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/relock-go/relock/internal/test/redistest"
)

func TestMain(m *testing.M) {
	if text := os.Getenv(variable); text != "" {
		exit(work(context.Background(), os.Stdin, os.Stdout, text))
	}
	goleak.VerifyTestMain(m)
}

// The run of the documentation with a shorter hold: each caller holds the lock
// once, one at a time, and the fair lock is granted in the order of arrival.
func TestCompetition(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	genuine := "redis://" + server.Address
	if server.Network == "unix" {
		genuine = "unix://" + server.Address
	}
	for name, r := range map[string]role{
		"redis":    {Backend: "redis", Server: genuine},
		"embedded": {Backend: "redis"},
		"etcd":     {Backend: "etcd"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			var out strings.Builder
			r.Hold = 20 * time.Millisecond
			require.NoError(t, run(ctx, &out, r), "%s", &out)
			t.Log(out.String())
			require.GreaterOrEqual(t, strings.Count(out.String(), "\n"), 2*processes*goroutines)
		})
	}
	require.ErrorContains(t, run(t.Context(), &strings.Builder{}, role{Backend: "other"}), "neither redis nor etcd")
}

func TestProcessFails(t *testing.T) {
	t.Parallel()
	_, err := compete(t.Context(), role{Backend: "redis", Server: "redis://127.0.0.1:1"})
	require.Error(t, err)
	all, err := startAll(t.Context(), role{Backend: "redis", Server: "http://localhost"})
	require.NoError(t, err)
	_, err = collect(all)
	require.ErrorContains(t, err, "exit status 1")
	require.Error(t, work(t.Context(), strings.NewReader(""), &strings.Builder{}, "no role"))
}

// someTurns are valid: one after the other, in the order of the requests.
func someTurns() []turn {
	turns := make([]turn, processes*goroutines)
	for i := range turns {
		turns[i] = turn{From: int64(10 * i), To: int64(10*i + 5), Asked: i}
	}
	return turns
}

func TestCheckFindsFaults(t *testing.T) {
	t.Parallel()
	turns := someTurns()
	require.NoError(t, check(true, turns))
	turns[3].To = 100
	require.Error(t, check(false, turns), "an overlap")
	turns[3].To, turns[4].Asked = 35, 2
	require.NoError(t, check(false, turns))
	require.Error(t, check(true, turns), "the order")
	require.Error(t, check(true, someTurns()[1:]), "a turn that is missing")
}

func TestShow(t *testing.T) {
	t.Parallel()
	ms := time.Millisecond.Nanoseconds()
	turns := []turn{
		{Process: 2, Goroutine: 1, Asked: 3, From: 123 * ms, To: 130 * ms},
		{Process: 1, Goroutine: 2, Asked: 2, From: 100 * ms, To: 110 * ms},
		{Process: 3, Goroutine: 10, Asked: 1, From: 111 * ms, To: 120 * ms},
	}
	inOrder(turns)
	require.Equal(t, `
fair: 3 processes x 10 goroutines
        at  process  goroutine  asked as        gap
        0s  1        2                 2          -
      11ms  3        10                1        1ms
      23ms  2        1                 3        3ms
gap from one unlock to the next lock: median 3ms, most 3ms
`, show(true, turns))
}
