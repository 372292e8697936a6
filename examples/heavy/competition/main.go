// Competition shows when each caller gets a lock. Three processes with ten
// goroutines each take the same lock once, and hold it for a second. They do so
// with an unfair lock and then with a fair one.
//
//	go run ./examples/heavy/competition [-backend redis|etcd] [-server address] [-hold 1s]
//
// It needs only Go, since it starts a server in its own process. The address is
// a URL of Redis, or the endpoints of etcd between commas. The program fails if
// two callers held the lock at the same time, or if the fair lock was not
// granted in the order of arrival.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"

	"github.com/relock-go/relock"
)

const key = "competition"

// backend is the locks of one process, in Redis or in etcd.
type backend struct {
	locker relock.Locker
	// waiting returns how many calls queue for a fair lock that is held.
	waiting func(ctx context.Context) (int, error)
	close   func() error
}

// backends are the choices of a user.
var backends = map[string]struct {
	start func() (server string, stop func(), err error)
	open  func(server string, fair bool) (backend, error)
}{
	"redis": {startRedis, openRedis},
	"etcd":  {startEtcd, openEtcd},
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if text := os.Getenv(variable); text != "" {
		exit(work(ctx, os.Stdin, os.Stdout, text))
	}
	name := flag.String("backend", "redis", "redis or etcd")
	server := flag.String("server", "", "its address; a server inside this process by default")
	hold := flag.Duration("hold", time.Second, "for how long each has the lock")
	flag.Parse()
	exit(run(ctx, os.Stdout, role{Backend: *name, Server: *server, Hold: *hold}))
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "competition:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// run lets the processes compete for both kinds of locks. It shows their turns
// and checks them.
func run(ctx context.Context, out io.Writer, r role) error {
	chosen, ok := backends[r.Backend]
	if !ok {
		return fmt.Errorf("backend %q is neither redis nor etcd", r.Backend)
	}
	if r.Server == "" {
		server, stop, err := chosen.start()
		if err != nil {
			return err
		}
		defer stop()
		r.Server = server
	}
	for _, r.Fair = range []bool{false, true} {
		turns, err := compete(ctx, r)
		if err != nil {
			return err
		}
		if _, err := io.WriteString(out, show(r.Fair, turns)); err != nil {
			return err
		}
		if err := check(r.Fair, turns); err != nil {
			return err
		}
	}
	return nil
}
