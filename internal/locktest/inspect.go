package locktest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
)

func Inspect(t testing.TB, c *relock.Client, key string) relock.Info {
	t.Helper()
	info, err := c.Inspect(t.Context(), key)
	require.NoError(t, err)
	require.Equal(t, key, info.Key)
	return info
}
