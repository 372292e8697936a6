package locktest

import (
	"context"
	"testing"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/scripttest"
)

// As returns the context of an owner.
func As(t testing.TB, name string) context.Context { return relock.ContextWithOwner(t.Context(), name) }

// RWStored returns what the server has of a read/write lock by the owner's
// name, as '<r or w> <reads>:<writes>'.
func RWStored(t testing.TB, s *redistest.Server, c *relock.Client, key string) map[string]string {
	t.Helper()
	stored := map[string]string{}
	for _, e := range scripttest.ReadRW(t, s.Dial(t), KeyOf(c, key)) {
		stored[e.Owner] = e.Kind + " " + e.Counts
	}
	return stored
}
