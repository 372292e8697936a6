package display

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
)

func TestPlain(t *testing.T) {
	for text, want := range map[string]string{
		"":             "",
		"orders/42 é":  "orders/42 é",
		"\x1b[2J":      `"\x1b[2J"`,
		"a\nb":         `"a\nb"`,
		"a\u202eb":     `"a\u202eb"`,
		"\xff":         `"\xff"`,
		`a "quoted" b`: `a "quoted" b`,
	} {
		require.Equal(t, want, Plain(text))
	}
}

func TestOfALock(t *testing.T) {
	one, two := relock.Holder{Client: "1"}, relock.Holder{Client: "2"}
	require.Empty(t, Holders(relock.Info{}))
	require.Equal(t, []relock.Holder{one}, Holders(relock.Info{Holder: &one}))
	require.Equal(t, []relock.Holder{one, two}, Holders(relock.Info{Readers: []relock.Holder{one, two}}))
	require.Zero(t, LongestWait(relock.Info{}))
	require.Equal(t, time.Minute,
		LongestWait(relock.Info{Waiters: []relock.Waiter{{Age: time.Second}, {Age: time.Minute}}}))
}
