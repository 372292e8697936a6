package scripttest

import (
	"strconv"

	"github.com/stretchr/testify/require"
)

// CounterKey returns the key of the counter of fencing tokens.
func (b *Queue) CounterKey() string { return b.Key + ":f" }

// RequireTokens returns the token of a reply that is a grant, and how many
// tokens after it are set aside.
func (b *Queue) RequireTokens(answer []string) (token, aside int64) {
	b.Helper()
	require.Len(b, answer, 3)
	require.Equal(b, "1", answer[0])
	token, err := strconv.ParseInt(answer[1], 10, 64)
	require.NoError(b, err)
	aside, err = strconv.ParseInt(answer[2], 10, 64)
	require.NoError(b, err)
	return token, aside
}
