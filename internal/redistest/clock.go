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

// Clock is the wall clock of one server, which the test can move. It runs as fast as any other, and keeps its offset over Kill and Boot.
type Clock struct {
	server *Server
	path   string // of what the server has mapped
	offset time.Duration
}

// StartWithClock runs a server on a unix socket until the test ends, on a clock of its own. It needs gcc and Linux; without them the test
// is skipped, except under CI, where it fails.
func StartWithClock(tb testing.TB, args ...string) (*Server, *Clock) {
	tb.Helper()
	s := onSocket(tempDir(tb), args)
	c := &Clock{server: s, path: filepath.Join(s.dir, "clock")}
	c.write(tb)
	s.env = []string{"LD_PRELOAD=" + installClock(tb, s.dir), "RELOCK_CLOCK=" + c.path}
	s.run(tb)
	c.check(tb)
	return s, c
}

// clockLibrary is compiled once for a test binary.
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

// installClock puts the library into dir and returns its path.
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

// Advance moves the server's clock by d, back where d is negative. The next command sees it. On a server that is down it counts from its
// next Boot; one that is paused must be resumed before.
func (c *Clock) Advance(tb testing.TB, d time.Duration) {
	tb.Helper()
	c.offset += d
	c.write(tb)
	if c.server.up() {
		c.check(tb)
	}
}

// AdvanceAtReading moves the clock by d when the server reads it for the n-th time from now: the way to move it while a script runs.
func (c *Clock) AdvanceAtReading(tb testing.TB, n int, d time.Duration) {
	tb.Helper()
	c.put(tb, c.offset, time.Duration(n), d)
}

// Settle ends what AdvanceAtReading has begun. It says whether the clock was moved.
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

// Offset is how far the server's clock is ahead of that of the machine.
func (c *Clock) Offset() time.Duration { return c.offset }

// Now is what the server's clock shows.
func (c *Clock) Now() time.Time { return time.Now().Round(0).Add(c.offset) }

func (c *Clock) write(tb testing.TB) {
	tb.Helper()
	c.put(tb, c.offset, 0, 0)
}

// put fills the file, see preload/clock.c.
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

// check makes sure that the server goes by the clock. The round trip also ends the turn of its event loop, for which it may have kept the
// time.
func (c *Clock) check(tb testing.TB) {
	tb.Helper()
	const slack = time.Second // the machine's own clock may be set
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
