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

// server is a private redis-server on a free port.
type server struct {
	address string
	// With TLS: what clients get in place of the address, and the folder with
	// the certificate.
	encrypted, certificates string
	dir                     string
	cmd                     *exec.Cmd
	admin                   redis.Conn
}

// startServer starts a server and returns when it answers. The server stores
// nothing on disk, and accepts all clients that connect together.
func startServer(args ...string) (*server, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "relock-bench")
	if err != nil {
		return nil, err
	}
	s := &server{address: net.JoinHostPort("127.0.0.1", port), dir: dir}
	s.cmd = exec.Command("redis-server", append([]string{
		"--port", port, "--bind", "127.0.0.1", "--save", "", "--dir", dir, "--logfile", "log", "--tcp-backlog", "4096", "--repl-diskless-sync-delay", "0",
	}, args...)...)
	if err := s.cmd.Start(); err != nil {
		_ = os.RemoveAll(dir)
		return nil, fmt.Errorf("the package redis-server is needed: %w", err)
	}
	for end := time.Now().Add(5 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		if s.admin, err = redis.Dial("tcp", s.address); err == nil {
			return s, nil
		}
		if time.Now().After(end) {
			s.stop()
			return nil, fmt.Errorf("redis-server does not answer: %w", err)
		}
	}
}

func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close() //nolint:errcheck // no client has connected
	_, port, err := net.SplitHostPort(l.Addr().String())
	return port, err
}

func (s *server) stop() {
	if s.admin != nil {
		_ = s.admin.Close()
	}
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait() // it was killed
	_ = os.RemoveAll(s.dir)
	if s.certificates != "" {
		_ = os.RemoveAll(s.certificates)
	}
}

// commands returns how many commands the server has run, including those inside
// scripts.
func (s *server) commands() (int64, error) {
	n, err := s.info("stats", "total_commands_processed")
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(n, 10, 64)
}

func (s *server) info(section, field string) (string, error) {
	text, err := redis.String(s.admin.Do("INFO", section))
	if err != nil {
		return "", err
	}
	if value := fieldOf(text, field); value != "" {
		return value, nil
	}
	return "", fmt.Errorf("INFO has no %s", field)
}

// fieldOf returns the value of the field in a text of lines "field : value".
func fieldOf(text, field string) string {
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == field {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// roundTrip returns the median time of a PING on a quiet server.
func (s *server) roundTrip() (time.Duration, error) {
	var times []float64
	for range 500 {
		start := time.Now()
		if _, err := s.admin.Do("PING"); err != nil {
			return 0, err
		}
		times = append(times, time.Since(start).Seconds())
	}
	return time.Duration(median(times) * float64(time.Second)), nil
}
