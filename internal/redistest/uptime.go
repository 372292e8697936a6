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
		time.Sleep(5*time.Millisecond + time.Duration(max(0, seconds-up-1))*time.Second) // it is unknown when its next second begins
	}
}

// uptime returns the uptime by INFO. A server that still loads its data replies
// with an error.
func (s *Server) uptime(tb testing.TB) (int, error) {
	tb.Helper()
	text, err := redis.String(s.Try(tb, "INFO", "server"))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(text, "uptime_in_seconds:")
	line, _, _ := strings.Cut(rest, "\r\n")
	return strconv.Atoi(line)
}
