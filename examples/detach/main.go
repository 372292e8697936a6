// Detach locks a video and hands the lock off to a worker process by a token.
// The worker does the work and unlocks. It needs only Go, see quickstart.
package main

import (
	"context"
	"io"
	"log"
	"os"
	"os/exec"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/examples/internal/embedded"
)

const variable = "VIDEO_TOKEN" // the worker has it; it is as secret as a password

func main() { embedded.Main(run) }

func run(ctx context.Context, out io.Writer, url string) error {
	lines := log.New(out, "", 0)
	client, err := relock.NewClientURL(url)
	if err != nil {
		return err
	}
	defer client.Close() //nolint:errcheck // nothing is held by then
	if token := os.Getenv(variable); token != "" {
		hold, err := client.Resume(ctx, token)
		if err != nil {
			return err
		}
		lines.Println("worker: has the lock, and converts the video")
		return hold.Unlock(ctx)
	}
	lock := relock.NewRedisLock("video 7", client)
	hold, err := lock.Acquire(ctx)
	if err != nil {
		return err
	}
	lines.Println("server: has the lock, and stores the video")
	token, err := client.Detach(ctx, hold, time.Minute)
	if err != nil {
		return err
	}
	lines.Println("server: hands the lock off, others get:", lock.TryLock(ctx))
	worker := exec.CommandContext(ctx, os.Args[0])
	worker.Env, worker.Stdout = append(os.Environ(), "REDIS_URL="+url, variable+"="+token), out
	return worker.Run()
}
