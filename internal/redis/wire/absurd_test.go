package wire

import (
	"math"
	"net"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/test/testkit"
)

// A number that would be read as another one is an error, and so is an answer
// that would take all memory or the whole stack. What came with it is refused.
func TestAbsurdAnswers(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"wraps to 1":           ":18446744073709551617\r\n",
		"above an int64":       ":9223372036854775808\r\n",
		"below an int64":       ":-9223372036854775809\r\n",
		"wraps twice":          ":36893488147419103233\r\n",
		"a length that wraps":  "$18446744073709551617\r\nx\r\n",
		"a large length":       "$536870913\r\nx\r\n",
		"a length of an int64": "$9223372036854775808\r\n",
		"a large array":        "*33554432\r\n:1\r\n",
		"an array that wraps":  "*18446744073709551617\r\n:1\r\n",
		"a deep array":         strings.Repeat("*1\r\n", 600_000) + ":1\r\n",
		"many small arrays":    "*1000000\r\n" + strings.Repeat("*0\r\n", 600_000),
	} {
		c := NewConn(testkit.TextConn{Text: strings.NewReader(text)}, nil, false, 0)
		for range 2 {
			_, err := c.ReceiveWithTimeout(0)
			require.ErrorIs(t, err, ErrAbsurd, name)
			require.ErrorIs(t, c.Err(), net.ErrClosed, name)
		}
		require.Zero(t, c.answers.whole.Load(), name)
	}
	for text, want := range map[string]any{
		":9223372036854775807\r\n":                    int64(math.MaxInt64),
		":-9223372036854775808\r\n":                   int64(math.MinInt64),
		":00000000000000000000000000000000000007\r\n": int64(7),
	} {
		c := NewConn(testkit.TextConn{Text: strings.NewReader(text)}, nil, false, 0)
		got, err := c.receive(0)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	c := NewConn(testkit.TextConn{Text: strings.NewReader(strings.Repeat("*1\r\n", 400_000) + ":1\r\n")}, nil, false, 0)
	_, err := c.receive(0)
	require.NoError(t, err, "a script may answer that")
}
