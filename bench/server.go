package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/relock-go/relock/internal/test/redistest"
)

// server is a private redis-server on a free port.
type server struct {
	address   string
	encrypted string // with TLS, what clients get in place of the address
	stop      func()
	admin     redis.Conn
}

// startServer starts a server and returns when it answers. The server stores
// nothing on disk, and accepts all clients that connect together.
func startServer(args ...string) (*server, error) {
	s, stop, err := redistest.LaunchTCP(append(
		[]string{"--tcp-backlog", "4096", "--repl-diskless-sync-delay", "0"}, args...)...)
	if err != nil {
		return nil, err
	}
	admin, err := redis.Dial(s.Network, s.Address)
	if err != nil {
		stop()
		return nil, err
	}
	return &server{address: s.Address, admin: admin, stop: func() { _ = admin.Close(); stop() }}, nil
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
