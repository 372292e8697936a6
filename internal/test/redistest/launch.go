package redistest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
)

// Launch runs a server on a unix socket until stop is called. It is for a whole
// test binary (TestMain, examples). It returns an error if there is no
// redis-server.
func Launch() (s *Server, stop func(), err error) {
	l, err := newLaunch()
	if err != nil {
		return nil, nil, err
	}
	s = onSocket(l.dir, nil)
	return s, l.stop, l.boot(s)
}

// LaunchTCP is [Launch] on a free port of 127.0.0.1.
func LaunchTCP(args ...string) (s *Server, stop func(), err error) {
	port, err := FindPort()
	if err != nil {
		return nil, nil, err
	}
	l, err := newLaunch()
	if err != nil {
		return nil, nil, err
	}
	s = onPort(l.dir, port, args...)
	if err := l.boot(s); err != nil {
		l.stop()
		return nil, nil, err
	}
	return s, l.stop, nil
}

// launch is servers that no test ends, in one folder.
type launch struct {
	path, dir string
	servers   []*Server
}

func newLaunch() (l *launch, err error) {
	l = &launch{}
	if l.path, err = exec.LookPath("redis-server"); err == nil {
		l.dir, err = os.MkdirTemp("", "relock")
	}
	return l, err
}

func (l *launch) boot(s *Server) error {
	l.servers = append(l.servers, s)
	return s.boot(l.path)
}

func (l *launch) stop() {
	for _, s := range l.servers {
		s.kill()
	}
	_ = os.RemoveAll(l.dir)
}

// LaunchOrExit is Launch for a TestMain. Without a redis-server it ends the
// process: the tests are skipped, or under CI they fail.
func LaunchOrExit() (s *Server, stop func()) {
	s, stop, err := Launch()
	if err == nil {
		return s, stop
	}
	fmt.Fprintln(os.Stderr, "no server:", err)
	if os.Getenv("CI") != "" {
		os.Exit(1)
	}
	os.Exit(0)
	return nil, nil
}

// LaunchShared is Shared for a TestMain.
func LaunchShared() (s *Server, stop func()) {
	if s := named(); s != nil {
		return s, func() {}
	}
	return LaunchOrExit()
}

// LaunchCluster runs a Cluster of one server until stop is called, as [Launch]
// does. It returns the server's address.
func LaunchCluster() (address string, stop func(), err error) {
	l, err := newLaunch()
	if err != nil {
		return "", nil, err
	}
	port, err := FindPortWithBus()
	if err != nil {
		return "", l.stop, err
	}
	s := onPort(l.dir, port, "--cluster-enabled", "yes")
	if err := l.boot(s); err != nil {
		return "", l.stop, err
	}
	return s.Address, l.stop, s.serveAll()
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
