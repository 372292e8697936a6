// Package redistest runs private redis-servers for tests, sets of them with
// sentinels, and Clusters. They have no fixed port, and share no state with
// anything else. It also has servers that accept no more connections, and those
// whose replies a test chooses.
package redistest

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
)

// Server is a redis-server of the test, or the one that RELOCK_TEST_REDIS
// names.
type Server struct {
	Network, Address string
	Foreign          bool // must not be stopped or configured

	file   string // of a sentinel: its configuration, which it changes itself
	args   []string
	paused atomic.Bool // by Pause
	env    []string    // in addition to the test's own
	dir    string
	cmd    *exec.Cmd
	done   chan struct{}
}

// Binary returns the path of the redis-server to run. If there is none, it
// calls [Lacks].
func Binary(tb testing.TB) string {
	tb.Helper()
	path, err := exec.LookPath("redis-server")
	if err != nil {
		Lacks(tb, "redis-server is not on PATH; install it: apt-get install redis-server")
	}
	return path
}

func onSocket(dir string, args []string) *Server {
	s := &Server{Network: "unix", Address: filepath.Join(dir, "redis.sock"), dir: dir}
	s.args = append([]string{"--port", "0", "--unixsocket", s.Address}, args...)
	return s
}

// Start runs a server on a unix socket until the test ends.
func Start(tb testing.TB, args ...string) *Server {
	tb.Helper()
	s := onSocket(TempDir(tb), args)
	s.run(tb)
	return s
}

// StartTCP runs a server on a free port of 127.0.0.1 until the test ends.
func StartTCP(tb testing.TB, args ...string) *Server {
	tb.Helper()
	s := onPort(TempDir(tb), FreePort(tb), args...)
	s.run(tb)
	return s
}

func onPort(dir, port string, args ...string) *Server {
	s := &Server{Network: "tcp", Address: "127.0.0.1:" + port, dir: dir}
	s.args = append([]string{"--port", port, "--bind", "127.0.0.1"}, args...)
	return s
}

// Shared returns the server that RELOCK_TEST_REDIS names, by host:port or by a
// socket's path. Without that variable it runs one. It is for tests that
// neither stop nor configure the server.
func Shared(tb testing.TB) *Server {
	tb.Helper()
	if s := named(); s != nil {
		return s
	}
	return Start(tb)
}

func named() *Server {
	address := os.Getenv("RELOCK_TEST_REDIS")
	if address == "" {
		return nil
	}
	s := &Server{Network: "tcp", Address: address, Foreign: true}
	if filepath.IsAbs(address) {
		s.Network = "unix"
	}
	return s
}

// TempDir returns a new folder with a path shorter than that of tb.TempDir. The
// path of a unix socket has some 100 bytes at most.
func TempDir(tb testing.TB) string {
	tb.Helper()
	dir, err := os.MkdirTemp("", "relock")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// FreePort returns a port of 127.0.0.1 that is free.
func FreePort(tb testing.TB) string {
	tb.Helper()
	port, err := FindPort()
	if err != nil {
		tb.Fatal(err)
	}
	return port
}

func (s *Server) run(tb testing.TB) {
	tb.Helper()
	tb.Cleanup(func() { s.Kill(tb) })
	s.Boot(tb)
}

// Boot starts the server again after Kill, on the same address.
func (s *Server) Boot(tb testing.TB) {
	tb.Helper()
	if err := s.boot(Binary(tb)); err != nil {
		tb.Fatal(err)
	}
}

// logFile returns the path of the server's log. It is in the folder that
// RELOCK_TEST_LOGS names, and stays there. Without that variable it is beside
// the socket.
func (s *Server) logFile() string {
	if kept := os.Getenv("RELOCK_TEST_LOGS"); kept != "" {
		return filepath.Join(kept, filepath.Base(s.dir)+".log")
	}
	return filepath.Join(s.dir, "log")
}

func (s *Server) boot(path string) error {
	args := append([]string{"--dir", s.dir, "--save", "", "--logfile", s.logFile()}, s.args...)
	if s.file != "" {
		args = append([]string{s.file, "--sentinel", "--logfile", s.logFile()}, s.args...)
	}
	s.cmd = exec.Command(path, args...)
	s.cmd.Env = append(os.Environ(), s.env...)
	s.cmd.SysProcAttr = withParent()
	if err := s.cmd.Start(); err != nil {
		return err
	}
	s.done = make(chan struct{})
	s.paused.Store(false)
	go func(cmd *exec.Cmd, done chan struct{}) {
		defer close(done)
		_ = cmd.Wait() // it was usually killed
	}(s.cmd, s.done)
	if err := s.waitUntilUp(10 * time.Second); err != nil {
		log, _ := os.ReadFile(s.logFile())
		return fmt.Errorf("redis-server did not start: %w\n%s", err, log)
	}
	return nil
}

func (s *Server) waitUntilUp(limit time.Duration) error {
	deadline := time.Now().Add(limit)
	for {
		conn, err := net.Dial(s.Network, s.Address)
		if err == nil {
			return conn.Close()
		}
		if time.Now().After(deadline) {
			return err
		}
		select {
		case <-s.done:
			return errors.New("it ended")
		case <-time.After(time.Millisecond):
		}
	}
}

// Kill ends the server immediately, as kill -9 does, and waits for its end.
func (s *Server) Kill(tb testing.TB) {
	tb.Helper()
	s.kill()
}

func (s *Server) kill() {
	if s.cmd == nil || s.cmd.Process == nil {
		return
	}
	_ = s.cmd.Process.Kill() // it may have ended already
	<-s.done
}

// Dial opens a connection for the test.
func (s *Server) Dial(tb testing.TB, options ...redis.DialOption) redis.Conn {
	tb.Helper()
	own := []redis.DialOption{redis.DialReadTimeout(30 * time.Second)}
	conn, err := redis.Dial(s.Network, s.Address, append(own, options...)...)
	if err != nil {
		tb.Fatal(err)
	}
	return conn
}

// Do runs one command on its own connection, and fails the test if the command
// fails.
func (s *Server) Do(tb testing.TB, command string, args ...any) any {
	tb.Helper()
	reply, err := s.Try(tb, command, args...)
	if err != nil {
		tb.Fatalf("%s: %v", command, err)
	}
	return reply
}

// Try is Do, but returns the error.
func (s *Server) Try(tb testing.TB, command string, args ...any) (any, error) {
	tb.Helper()
	conn := s.Dial(tb)
	defer conn.Close() //nolint:errcheck // the command's error counts
	return conn.Do(command, args...)
}

// String returns the server's network and address, for messages.
func (s *Server) String() string { return fmt.Sprintf("%s %s", s.Network, s.Address) }
