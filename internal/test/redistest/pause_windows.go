package redistest

import "testing"

// Pause ends the test, because a process cannot be stopped and continued on
// Windows.
func (s *Server) Pause(tb testing.TB) { Lacks(tb, "needs SIGSTOP") }

// Resume does nothing.
func (s *Server) Resume(testing.TB) {}
