package main

import (
	"context"
	"errors"
	"io"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/examples/internal/runs"
)

func TestMain(m *testing.M) {
	if os.Getenv(variable) != "" {
		main()
		return
	}
	goleak.VerifyTestMain(m)
}

// The lock stays held from one process to the other, which releases it.
func TestDetachToWorker(t *testing.T) {
	t.Parallel()
	runs.OnBoth(t, func(ctx context.Context, out io.Writer, url string) error {
		client, err := relock.NewClientURL(url)
		if err != nil {
			return err
		}
		err = run(ctx, out, url)
		unlocked := relock.NewRedisLock("video 7", client).TryLock(ctx)
		return errors.Join(err, unlocked, client.Close())
	}, runs.Prints(`server: has the lock, and stores the video
server: hands the lock off, others get: relock: lock "video 7": lock is held by others (one attempt; see WithBlock)
worker: has the lock, and converts the video
`))
}
