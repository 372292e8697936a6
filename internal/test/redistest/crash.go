package redistest

import (
	"os"
	"path/filepath"
	"testing"
)

// up reports whether the server runs.
func (s *Server) up() bool {
	if s.done == nil {
		return false
	}
	select {
	case <-s.done:
		return false
	default:
		return true
	}
}

// revive starts the server again if it was killed, and resumes it if it was
// paused.
func (s *Server) revive(tb testing.TB) {
	tb.Helper()
	if s.up() {
		s.Resume(tb)
	} else {
		s.BootAndLoad(tb)
	}
}

// answers reports whether the server runs, and is not paused.
func (s *Server) answers() bool { return s.up() && !s.paused.Load() }

// LogSize returns the length of the append-only file, which must be enabled.
// CutLog can cut the file there later.
func (s *Server) LogSize(tb testing.TB) int64 {
	tb.Helper()
	info, err := os.Stat(s.appendOnlyFile(tb))
	if err != nil {
		tb.Fatal(err)
	}
	return info.Size()
}

// CutLog drops what was appended to the append-only file after it had this
// size. A machine that loses its power does the same. Kill the server first.
func (s *Server) CutLog(tb testing.TB, size int64) {
	tb.Helper()
	if err := os.Truncate(s.appendOnlyFile(tb), size); err != nil {
		tb.Fatal(err)
	}
}

// appendOnlyFile returns the path of the file that grows. Since Redis 7.0 it is
// the only increment in a separate folder. Nothing here rewrites it.
func (s *Server) appendOnlyFile(tb testing.TB) string {
	tb.Helper()
	if files, err := filepath.Glob(filepath.Join(s.dir, "appendonlydir", "*.incr.aof")); err == nil && len(files) == 1 {
		return files[0]
	}
	return filepath.Join(s.dir, "appendonly.aof")
}

// BootAndLoad is Boot, but also waits until the server has loaded its data.
func (s *Server) BootAndLoad(tb testing.TB) {
	tb.Helper()
	s.Boot(tb)
	await(tb, "redis-server does not answer", func() bool {
		_, err := s.Try(tb, "PING")
		return err == nil
	})
}
