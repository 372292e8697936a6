package redistest

import (
	_ "embed"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
)

//go:embed preload/clock.c
var clockSource []byte

// Clock is the wall clock of one server, which the test can move. It runs at
// normal speed, and keeps its offset over Kill and Boot.
type Clock struct {
	server *Server
	path   string // of the file that the server has mapped
	offset time.Duration
}

// StartWithClock runs a server with its own clock on a unix socket until the
// test ends. It needs gcc and Linux. Without them the test is skipped, except
// under CI, where it fails.
func StartWithClock(tb testing.TB, args ...string) (*Server, *Clock) {
	tb.Helper()
	s := onSocket(TempDir(tb), args)
	c := &Clock{server: s, path: filepath.Join(s.dir, "clock")}
	c.write(tb)
	s.env = []string{"LD_PRELOAD=" + installClock(tb, s.dir), "RELOCK_CLOCK=" + c.path}
	s.run(tb)
	c.check(tb)
	return s, c
}

// clockLibrary compiles the library once for a test binary.
var clockLibrary = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "relock")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // it is a temporary folder
	source, library := filepath.Join(dir, "clock.c"), filepath.Join(dir, "clock.so")
	if err := os.WriteFile(source, clockSource, 0o600); err != nil {
		return nil, err
	}
	if out, err := exec.Command("gcc", "-O2", "-shared", "-fPIC", "-o", library, source).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("gcc: %w\n%s", err, out)
	}
	return os.ReadFile(library)
})

// installClock writes the library into dir and returns its path.
func installClock(tb testing.TB, dir string) string {
	tb.Helper()
	if runtime.GOOS != "linux" {
		Lacks(tb, "needs Linux: a library that replaces the clock of redis-server")
	}
	if _, err := exec.LookPath("gcc"); err != nil {
		Lacks(tb, "gcc is not on PATH; install it: apt-get install gcc libc6-dev")
	}
	library, err := clockLibrary()
	if err != nil {
		tb.Fatal(err)
	}
	path := filepath.Join(dir, "clock.so")
	if err := os.WriteFile(path, library, 0o700); err != nil {
		tb.Fatal(err)
	}
	return path
}

// Advance moves the server's clock by d, or back if d is negative. The next
// command sees it. If the server is down, its next Boot starts with that
// offset. A paused server must be resumed before.
func (c *Clock) Advance(tb testing.TB, d time.Duration) {
	tb.Helper()
	c.offset += d
	c.write(tb)
	if c.server.up() {
		c.check(tb)
	}
}

// AdvanceAtReading moves the clock by d when the server reads it for the n-th
// time from now. With it a test can move the clock while a script runs.
func (c *Clock) AdvanceAtReading(tb testing.TB, n int, d time.Duration) {
	tb.Helper()
	c.put(tb, c.offset, time.Duration(n), d)
}

// Settle ends what AdvanceAtReading has begun. It reports whether the clock was
// moved.
func (c *Clock) Settle(tb testing.TB) (moved bool) {
	tb.Helper()
	all, err := os.ReadFile(c.path)
	if err != nil {
		tb.Fatal(err)
	}
	before := c.offset
	c.offset = time.Duration(binary.NativeEndian.Uint64(all))
	c.write(tb)
	return c.offset != before
}

// Offset returns how far the server's clock is ahead of the machine's.
func (c *Clock) Offset() time.Duration { return c.offset }

// Now returns the time by the server's clock.
func (c *Clock) Now() time.Time { return time.Now().Round(0).Add(c.offset) }

func (c *Clock) write(tb testing.TB) {
	tb.Helper()
	c.put(tb, c.offset, 0, 0)
}

// put writes the numbers to the file, see preload/clock.c.
func (c *Clock) put(tb testing.TB, numbers ...time.Duration) {
	tb.Helper()
	var all []byte
	for _, n := range numbers {
		all = binary.NativeEndian.AppendUint64(all, uint64(n))
	}
	file, err := os.OpenFile(c.path, os.O_WRONLY|os.O_CREATE, 0o600) // the same file, since the server has it mapped
	if err != nil {
		tb.Fatal(err)
	}
	defer file.Close() //nolint:errcheck // WriteAt has reported what matters
	if _, err := file.WriteAt(all, 0); err != nil {
		tb.Fatal(err)
	}
}

// check makes sure that the server uses the clock. The round trip also ends the
// current turn of its event loop, for which it may have cached the time.
func (c *Clock) check(tb testing.TB) {
	tb.Helper()
	const slack = time.Second // the machine's own clock may be changed
	before := c.Now().Add(-slack)
	shown, err := redis.Int64s(c.server.Try(tb, "TIME"))
	after := c.Now().Add(slack)
	if err != nil {
		tb.Fatalf("TIME: %v", err)
	}
	if now := time.Unix(shown[0], shown[1]*1000); now.Before(before) || now.After(after) {
		tb.Fatalf("the server's clock shows %v, not between %v and %v: was the library not preloaded?", now, before, after)
	}
}
