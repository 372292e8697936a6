package rwlock_test

import (
	"os"
	"testing"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/redistest"
)

func TestMain(m *testing.M) { os.Exit(locktest.Run(m)) }

// storedAt returns what the server has of a read/write lock by the owner's
// name, as '<r or w> <reads>:<writes>'.
func storedAt(t testing.TB, s *redistest.Server, c *relock.Client, key string) map[string]string {
	t.Helper()
	stored := map[string]string{}
	for _, e := range locktest.ReadRW(t, s.Dial(t), locktest.KeyOf(c, key)) {
		stored[e.Owner] = e.Kind + " " + e.Counts
	}
	return stored
}
