package redistest

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
)

// AwaitUp waits until the server reports an uptime of at least the given
// seconds. The server counts whole seconds. A RedLock counts a server whose
// uptime is above the largest lease.
func (s *Server) AwaitUp(tb testing.TB, seconds int) {
	tb.Helper()
	deadline := time.Now().Add(time.Duration(seconds)*time.Second + time.Minute)
	for {
		up, err := s.uptime(tb)
		if err == nil && up >= seconds {
			return
		}
		if time.Now().After(deadline) {
			tb.Fatalf("the server is up for %d s, not %d: %v", up, seconds, err)
		}
		// it is unknown when its next second begins
		time.Sleep(5*time.Millisecond + time.Duration(max(0, seconds-up-1))*time.Second)
	}
}

// uptime returns the uptime by INFO.
func (s *Server) uptime(tb testing.TB) (int, error) {
	tb.Helper()
	n, err := s.tryInfo(tb, "server", "uptime_in_seconds")
	return int(n), err
}

// Info returns a number from a section of INFO.
func (s *Server) Info(tb testing.TB, section, field string) int64 {
	tb.Helper()
	n, err := s.tryInfo(tb, section, field)
	if err != nil {
		tb.Fatalf("%s of INFO %s: %v", field, section, err)
	}
	return n
}

// tryInfo is Info. A server that still loads its data replies with an error.
func (s *Server) tryInfo(tb testing.TB, section, field string) (int64, error) {
	tb.Helper()
	text, err := redis.String(s.Try(tb, "INFO", section))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(text, "\r\n"+field+":")
	line, _, _ := strings.Cut(rest, "\r\n")
	return strconv.ParseInt(line, 10, 64)
}
