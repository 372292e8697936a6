package proof

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

// footprint is what this process has, and what its servers have of it. A socket
// that a server has closed is not a connection any more, though its owner may
// not know: then it has fewer connections than sockets.
type footprint struct {
	goroutines, sockets, connections int
	heap                             int64
}

func (f footprint) String() string {
	return fmt.Sprintf("%d goroutines, %d sockets, %d connections at the servers, %d KiB",
		f.goroutines, f.sockets, f.connections, f.heap/1024)
}

// footprintOf looks at the servers over connections that it closes again.
func footprintOf(t testing.TB, servers ...*redistest.Server) (f footprint) {
	for _, s := range servers {
		f.connections += connectionsOf(t, s)
	}
	runtime.GC()
	runtime.GC() // what finalizers have freed
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	f.heap = int64(memory.HeapAlloc)
	f.goroutines, f.sockets = runtime.NumGoroutine(), socketsOf(t)
	return f
}

// connectionsOf counts those of clients, without those of replicas and
// sentinels.
func connectionsOf(t testing.TB, s *redistest.Server) (n int) {
	list, err := redis.String(s.Do(t, "CLIENT", "LIST"), nil)
	require.NoError(t, err)
	for line := range strings.Lines(list) {
		if isOfClient(line) {
			n++
		}
	}
	return n
}

// isOfClient reports whether a line of CLIENT LIST is neither of a replica, a
// master or a sentinel, nor of the test that asks.
func isOfClient(line string) bool {
	fields := map[string]string{}
	for _, field := range strings.Fields(line) {
		name, value, _ := strings.Cut(field, "=")
		fields[name] = value
	}
	return fields["name"] == "" && !strings.ContainsAny(fields["flags"], "MS") && fields["cmd"] != "client|list" &&
		fields["cmd"] != "client"
}

// socketsOf counts the sockets of this process, also those whose server has
// gone.
func socketsOf(t testing.TB) (n int) {
	files, err := filepath.Glob("/proc/self/fd/*")
	require.NoError(t, err)
	for _, file := range files {
		if link, err := os.Readlink(file); err == nil && strings.HasPrefix(link, "socket:") {
			n++
		}
	}
	return n
}

// restOf returns the footprint once it has stopped to change.
func restOf(t testing.TB, servers ...*redistest.Server) (f footprint) {
	const quiet = 300 * time.Millisecond
	before := footprintOf(t, servers...)
	for end := time.Now().Add(patience); time.Now().Before(end); before = f {
		time.Sleep(quiet)
		f = footprintOf(t, servers...)
		if f.goroutines == before.goroutines && f.sockets == before.sockets && f.connections == before.connections {
			return f
		}
	}
	return f
}

// most returns the most of each figure.
func (f footprint) most(g footprint) footprint {
	return footprint{
		max(f.goroutines, g.goroutines), max(f.sockets, g.sockets), max(f.connections, g.connections), max(f.heap, g.heap),
	}
}

// isWithin reports whether there is no more than before: not a goroutine, not a
// socket, and no connection without one.
func (f footprint) isWithin(before footprint) bool {
	return f.goroutines <= before.goroutines && f.sockets <= before.sockets && f.connections <= before.sockets
}

// requireBack requires that there is no more than before, now or after some
// more load. It varies which connections of a client are open at rest. But what
// was left behind never goes.
func (f footprint) requireBack(t testing.TB, load func(), servers ...*redistest.Server) {
	t.Helper()
	const rounds = 6
	for range rounds {
		if restOf(t, servers...).isWithin(f) {
			break
		}
		load()
	}
	f.requireNoMore(t, servers...)
}

// requireNoMore waits until there is no more than before. The heap has room for
// what a process learns.
func (f footprint) requireNoMore(t testing.TB, servers ...*redistest.Server) {
	t.Helper()
	const room = 2 << 20
	var now footprint
	for end := time.Now().Add(testkit.Patience); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		now = footprintOf(t, servers...)
		if now.isWithin(f) && now.heap <= f.heap+room {
			break
		}
	}
	t.Logf("before: %v", f)
	t.Logf("after:  %v", now)
	require.LessOrEqual(t, now.goroutines, f.goroutines, "goroutines")
	require.LessOrEqual(t, now.sockets, f.sockets, "sockets")
	require.LessOrEqual(t, now.connections, f.sockets, "connections")
	require.LessOrEqual(t, now.heap, f.heap+room, "bytes")
}
