package redistest

import "testing"

// Pause ends the test: a process cannot be stopped and continued here.
func (s *Server) Pause(tb testing.TB) { Lacks(tb, "needs SIGSTOP") }

// Resume is the end of Pause.
func (s *Server) Resume(testing.TB) {}
