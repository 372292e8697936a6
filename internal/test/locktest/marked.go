package locktest

import (
	"slices"
	"testing"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/testkit"
)

// AwaitMarked waits until all holders of a lock are marked, or gone.
func AwaitMarked(t testing.TB, c *relock.Client, key string) {
	t.Helper()
	testkit.Eventually(t, testkit.Patience, func() bool {
		i, err := c.Inspect(t.Context(), key)
		if i.Holder != nil {
			i.Readers = append(i.Readers, *i.Holder)
		}
		return err == nil && !slices.ContainsFunc(i.Readers, func(h relock.Holder) bool { return !h.Forced })
	}, "marked")
}
