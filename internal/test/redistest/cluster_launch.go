package redistest

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/relock-go/relock/internal/test/ports"
)

// LaunchCluster runs a Cluster of one server until stop is called, as [Launch]
// does. It returns the server's address.
func LaunchCluster() (address string, stop func(), err error) {
	path, err := exec.LookPath("redis-server")
	if err != nil {
		return "", nil, err
	}
	dir, err := os.MkdirTemp("", "relock")
	if err != nil {
		return "", nil, err
	}
	s := &Server{Network: "tcp", dir: dir}
	stop = func() {
		s.kill()
		_ = os.RemoveAll(dir)
	}
	port, err := ports.FreeWithBus()
	if err != nil {
		return "", stop, err
	}
	s.Address, s.args = "127.0.0.1:"+port, []string{"--port", port, "--bind", "127.0.0.1", "--cluster-enabled", "yes"}
	if err := s.boot(path); err != nil {
		return "", stop, err
	}
	return s.Address, stop, s.serveAll()
}

// serveAll gives the server all slots, and waits until it serves them, which
// takes some 2 s.
func (s *Server) serveAll() error {
	conn, err := redis.Dial(s.Network, s.Address)
	if err != nil {
		return err
	}
	defer conn.Close() //nolint:errcheck // the commands' errors count
	args := []any{"ADDSLOTS"}
	for slot := range slots {
		args = append(args, slot)
	}
	if _, err := conn.Do("CLUSTER", args...); err != nil {
		return err
	}
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(2 * time.Millisecond) {
		info, err := redis.String(conn.Do("CLUSTER", "INFO"))
		if err != nil || strings.Contains(info, "cluster_state:ok") {
			return err
		}
	}
	return errors.New("the Cluster does not serve its slots")
}
