package main

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/relock-go/relock/internal/test/competition"
	"github.com/relock-go/relock/internal/test/redistest"
)

func TestMain(m *testing.M) {
	if role := os.Getenv(competition.Variable); role != "" {
		exit(work(context.Background(), os.Stdin, os.Stdout, role))
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
	for name, url := range map[string]string{"embedded": "", "real": genuine} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			var out strings.Builder
			require.NoError(t, run(ctx, &out, url, 20*time.Millisecond), "%s", &out)
			t.Log(out.String())
			require.GreaterOrEqual(t, strings.Count(out.String(), "\n"), 2*competition.Processes*competition.Goroutines)
		})
	}
}
