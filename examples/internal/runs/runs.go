// Package runs is how the tests of examples run them.
package runs

import (
	"bytes"
	"context"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/examples/internal/embedded"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

// OnBoth runs an example on an embedded and on a real server, and checks what
// it prints. Ctrl-C must end it at any time, so it also runs interrupted.
func OnBoth(
	t *testing.T, run func(ctx context.Context, out io.Writer, url string) error, check func(t *testing.T, out string),
) {
	t.Run("embedded", func(t *testing.T) {
		t.Parallel()
		on(t, "", run, check)
	})
	t.Run("real", func(t *testing.T) {
		t.Parallel()
		on(t, "unix://"+redistest.Start(t).Address, run, check)
	})
	t.Run("interrupted", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		url := "unix://" + redistest.Start(t).Address
		ended := testkit.Async(t, func() error { t.Log(run(ctx, io.Discard, url)); return nil })
		require.NoError(t, testkit.ResultWithin(t, ended, testkit.Patience))
	})
}

func on(
	t *testing.T, url string, run func(ctx context.Context, out io.Writer, url string) error,
	check func(t *testing.T, out string),
) {
	url, stop, err := embedded.Open(url)
	require.NoError(t, err)
	defer stop()
	var out bytes.Buffer
	require.NoError(t, run(t.Context(), &out, url))
	t.Log(out.String())
	check(t, out.String())
}

// Prints returns the check for one text.
func Prints(want string) func(t *testing.T, out string) {
	return func(t *testing.T, out string) { require.Equal(t, want, out) }
}

// InOrder requires that a text has all lines, in this order.
func InOrder(t *testing.T, text string, wanted ...string) {
	t.Helper()
	for _, line := range wanted {
		_, after, found := strings.Cut(text, line)
		require.True(t, found, "%q is missing, or out of order", line)
		text = after
	}
}

// Scheduled checks a job that runs three times, once per period. The clock of
// the embedded server lags on a busy machine, so that it may skip a run.
func Scheduled(t *testing.T, out string) {
	all := "report 1\nreport 2\nreport 3\n"
	require.LessOrEqual(t, len(out), len(all), out)
	require.Equal(t, all[:len(out)], out)
	require.True(t, out == all || strings.HasSuffix(t.Name(), "/embedded") && out != "", out)
}
