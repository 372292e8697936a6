package main

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
)

// server is a redis-server of our own on a free port.
type server struct {
	address string
	dir     string
	cmd     *exec.Cmd
	admin   redis.Conn
}

func startServer() (*server, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	address := l.Addr().String()
	if err := l.Close(); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "relock-bench")
	if err != nil {
		return nil, err
	}
	_, port, _ := net.SplitHostPort(address)
	s := &server{address: address, dir: dir}
	s.cmd = exec.Command("redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "", "--dir", dir, "--logfile", "log")
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	for end := time.Now().Add(5 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		if s.admin, err = redis.Dial("tcp", address); err == nil {
			return s, nil
		}
		if time.Now().After(end) {
			s.stop()
			return nil, fmt.Errorf("redis-server does not answer: %w", err)
		}
	}
}

func (s *server) stop() {
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait() // it was killed
	_ = os.RemoveAll(s.dir)
}

// commands is how many the server has run, those inside scripts included.
func (s *server) commands() (int64, error) {
	text, err := redis.String(s.admin.Do("INFO", "stats"))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(text) {
		if n, ok := strings.CutPrefix(strings.TrimSpace(line), "total_commands_processed:"); ok {
			return strconv.ParseInt(n, 10, 64)
		}
	}
	return 0, fmt.Errorf("INFO has no total_commands_processed")
}

// roundTrip is the median time of a PING on a quiet server.
func (s *server) roundTrip() (time.Duration, error) {
	var times []time.Duration
	for range 2000 {
		start := time.Now()
		if _, err := s.admin.Do("PING"); err != nil {
			return 0, err
		}
		times = append(times, time.Since(start))
	}
	return percentile(times, 50), nil
}
