package fence_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/fence"
)

var (
	leastLine = regexp.MustCompile(`(?m)^ACL SETUSER app (on .*)$`)
	setRow    = regexp.MustCompile("(?m)^\\| `fence\\.Set` \\| `([^`]+)`.*\\|$")
)

// permissions returns the rules of docs/operations.md for a user of Set, for
// the key stock.
func permissions(t *testing.T) (least, keys []string) {
	t.Helper()
	const file = "../docs/operations.md"
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	line, row := leastLine.FindSubmatch(text), setRow.FindSubmatch(text)
	require.NotNil(t, line, file)
	require.NotNil(t, row, file)
	return strings.Fields(string(line[1])), strings.Fields(strings.ReplaceAll(string(row[1]), "key", "stock"))
}

// Set needs the permissions of the docs, and none of them is too many.
func TestPermissions(t *testing.T) {
	least, keys := permissions(t)
	require.Equal(t, []string{"~stock", "~" + fence.GuardOf("stock")}, keys)
	t.Cleanup(func() { server.Do(t, "DEL", "stock", fence.GuardOf("stock")) })

	try := func(keys []string) error {
		args := []any{"SETUSER", "fenced", "reset"}
		for _, rule := range slices.Concat(least, keys) {
			args = append(args, rule)
		}
		server.Do(t, "ACL", args...)
		defer server.Do(t, "ACL", "DELUSER", "fenced")
		c, err := relock.NewClient(server.Network, server.Address, "password", relock.WithUsername("fenced"))
		require.NoError(t, err)
		defer func() { require.NoError(t, c.Close()) }()
		return fence.Set(t.Context(), c, "stock", "9", 1795292944255000, 0)
	}
	require.NoError(t, try(keys))
	for i, rule := range keys {
		require.ErrorIs(t, try(slices.Delete(slices.Clone(keys), i, i+1)), relock.ErrDenied, "without %s", rule)
	}
}
