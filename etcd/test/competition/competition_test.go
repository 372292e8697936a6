package main

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/relock-go/relock/internal/test/competition"
)

func TestMain(m *testing.M) {
	if role := os.Getenv(competition.Variable); role != "" {
		exit(work(context.Background(), os.Stdout, role))
	}
	goleak.VerifyTestMain(m)
}

// The run of the documentation, with a shorter hold.
func TestCompetition(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var out strings.Builder
	if err := run(ctx, &out, "", 20*time.Millisecond); err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	t.Log(out.String())
	if n := strings.Count(out.String(), "\n"); n < 2*competition.Processes*competition.Goroutines {
		t.Errorf("%d lines", n)
	}
}
