package competition

import (
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// someTurns are valid: one after the other, in the order of the requests.
func someTurns() []Turn {
	turns := make([]Turn, Processes*Goroutines)
	for i := range turns {
		turns[i] = Turn{From: int64(10 * i), To: int64(10*i + 5), Asked: int64(i), Place: int64(i)}
	}
	return turns
}

func TestCheckFindsFaults(t *testing.T) {
	t.Parallel()
	turns := someTurns()
	require.NoError(t, Check(Fair, turns))
	turns[3].To = 100
	require.Error(t, Check(Unfair, turns), "an overlap")
	turns[3].To, turns[4].Place = 35, 2
	require.NoError(t, Check(Unfair, turns))
	require.Error(t, Check(Fair, turns), "the order")
	require.Error(t, Check(Fair, someTurns()[1:]), "a turn that is missing")
}

func TestRun(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	var modes []string
	overlapping := someTurns()
	overlapping[3].To = 100
	err := Run(&out, "", func(mode string) ([]Turn, error) {
		modes = append(modes, mode)
		if mode == Fair {
			return overlapping, nil
		}
		return someTurns(), nil
	})
	require.ErrorContains(t, err, "fair: two held the lock together")
	require.Equal(t, []string{Unfair, Fair}, modes)
	require.Contains(t, out.String(), "\nfair: 3 processes x 10 goroutines\n", "what is wrong is shown")
	failed := errors.New("no server")
	require.ErrorIs(t, Run(io.Discard, "", func(string) ([]Turn, error) { return nil, failed }), failed)
}

func TestShow(t *testing.T) {
	t.Parallel()
	ms := time.Millisecond.Nanoseconds()
	turns := []Turn{
		{Process: 1, Goroutine: 2, Asked: 900, Place: 70, From: 100 * ms, To: 110 * ms},
		{Process: 3, Goroutine: 10, Asked: 800, Place: 71, From: 111 * ms, To: 120 * ms},
		{Process: 2, Goroutine: 1, Asked: 950, Place: 75, From: 123 * ms, To: 130 * ms},
	}
	require.Equal(t, `
fair: 3 processes x 10 goroutines
        at  process  goroutine  asked as        gap
        0s  1        2                 2          -
      11ms  3        10                1        1ms
      23ms  2        1                 3        3ms
gap from one unlock to the next lock: median 3ms, most 3ms
`, Show(Fair, "", turns))
	require.Equal(t, `
unfair: 3 processes x 10 goroutines
        at  process  goroutine  asked as        gap  token
        0s  1        2                 1          -  70
`, Show(Unfair, "token", turns[:1]))
}

func TestCollect(t *testing.T) {
	t.Parallel()
	got, err := Collect(strings.NewReader("{\"From\":3,\"To\":4}\n{\"From\":7}\n"), strings.NewReader(""), strings.NewReader("{\"From\":5}\n"))
	require.NoError(t, err)
	require.Equal(t, []Turn{{From: 3, To: 4}, {From: 5}, {From: 7}}, got)
	_, err = Collect(strings.NewReader("panic: no\n"))
	require.Error(t, err)
}

func TestRole(t *testing.T) {
	t.Parallel()
	want := Role{Number: 2, Server: "unix:///tmp/redis.sock", Mode: Fair, Hold: 20 * time.Millisecond}
	cmd, err := want.Command(t.Context())
	require.NoError(t, err)
	text, ok := strings.CutPrefix(cmd.Env[len(cmd.Env)-1], Variable+"=")
	require.True(t, ok)
	got, err := ParseRole(text)
	require.NoError(t, err)
	require.Equal(t, want, got)
	for _, bad := range []string{"", "one two three 4s", "1 server fair", "1 server fair soon"} {
		_, err := ParseRole(bad)
		require.Error(t, err, bad)
	}
}
