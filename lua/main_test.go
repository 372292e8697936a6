package lua_test

import (
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/redistest"
)

// server is for tests that neither stop nor configure it.
var server *redistest.Server

func TestMain(m *testing.M) {
	var stop func()
	server, stop = redistest.LaunchShared()
	os.Exit(locktest.Run(m, stop))
}

// allLetters are the kinds and modes of the locks that are not read/write.
var allLetters = []string{"pu", "pf", "ru", "rf"}

// multiOfOne acquires a MultiLock of one key, and redLock the lock of a node.
var (
	multiOfOne = script.Call{Script: script.MultiAcquire, Args: []any{Plain1, 60_000, 0, "", 1, "", 0}}
	redLock    = script.Call{Script: script.RedLockAcquire, Args: []any{Plain1, 60_000, 0, "", 0}}
)

// fillMemory makes the server refuse what needs memory, until the test ends.
func fillMemory(t *testing.T, s *redistest.Server) {
	t.Helper()
	s.Do(t, "CONFIG", "SET", "maxmemory", "1")
	t.Cleanup(func() { s.Do(t, "CONFIG", "SET", "maxmemory", "0") })
}

func number(t testing.TB, text string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(text, 10, 64)
	require.NoError(t, err)
	return n
}

// slack is how much later than a script a test may read a time, in
// microseconds, on a machine that stands still for a moment.
const slack = 10e6

// requireDue requires that a task is due that many microseconds after a call
// that was made since before.
func requireDue(t testing.TB, b *Tasks, before, after int64, id string) {
	t.Helper()
	score := b.Score("d", id)
	require.GreaterOrEqual(t, score, before+after)
	require.LessOrEqual(t, score, b.Now()+after)
}
