package main

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"time"
)

// machine describes the machine on which the figures were taken.
type machine struct {
	Date      string
	CPU       string
	Cores     int
	Kernel    string
	Go        string
	Redis     string
	Libraries []string // with their versions
}

// compared lists the modules whose versions matter.
var compared = []string{
	"github.com/gomodule/redigo", "github.com/go-redsync/redsync/v4", "github.com/redis/go-redis/v9",
	"github.com/bsm/redislock", "github.com/redis/rueidis", "github.com/hibiken/asynq",
}

func describe() (machine, error) {
	m := machine{
		Date: time.Now().UTC().Format(time.DateOnly), CPU: cpu(), Cores: runtime.NumCPU(), Kernel: kernel(),
		Go: runtime.Version(),
	}
	srv, err := startServer()
	if err != nil {
		return m, err
	}
	defer srv.stop()
	if m.Redis, err = srv.info("server", "redis_version"); err != nil {
		return m, err
	}
	build, ok := debug.ReadBuildInfo()
	if !ok {
		return m, errors.New("the binary does not know its modules")
	}
	etcd, err := etcdVersion()
	m.Libraries = append(versions(build.Deps), etcd)
	return m, err
}

// cpu returns the model's name if the system reports it, otherwise the
// architecture.
func cpu() string {
	text, err := os.ReadFile("/proc/cpuinfo")
	if name := fieldOf(string(text), "model name"); err == nil && name != "" {
		return strings.Join(strings.Fields(name), " ")
	}
	return runtime.GOARCH
}

// kernel returns the kernel's version, without the suffix of its builder.
func kernel() string {
	name := runtime.GOOS
	if release, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		version, _, _ := strings.Cut(strings.TrimSpace(string(release)), "-")
		name += " " + version
	}
	return name
}

// loadAverage returns the machine's load over the last minute, if the system
// reports it.
func loadAverage() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	load, _, _ := strings.Cut(string(text), " ")
	return load
}

func versions(modules []*debug.Module) []string {
	var found []string
	for _, path := range compared {
		for _, m := range modules {
			if m.Path == path {
				found = append(found, path+" "+m.Version)
			}
		}
	}
	return found
}

func (m machine) String() string {
	return fmt.Sprintf("%s, %d cores, %s, Redis %s on loopback, %s, %s", m.CPU, m.Cores, m.Kernel, m.Redis, m.Go, m.Date)
}
