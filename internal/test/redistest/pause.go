//go:build !windows

package redistest

import (
	"syscall"
	"testing"
)

// Pause stops the whole server process (SIGSTOP) until Resume.
func (s *Server) Pause(tb testing.TB) {
	tb.Helper()
	s.paused.Store(true)
	s.signal(tb, syscall.SIGSTOP)
}

// Resume continues a paused server.
func (s *Server) Resume(tb testing.TB) {
	tb.Helper()
	s.signal(tb, syscall.SIGCONT)
	s.paused.Store(false)
}

func (s *Server) signal(tb testing.TB, sig syscall.Signal) {
	tb.Helper()
	if err := s.cmd.Process.Signal(sig); err != nil {
		tb.Fatal(err)
	}
}
