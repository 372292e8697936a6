package main

import (
	"bytes"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/examples/internal/embedded"
	"github.com/relock-go/relock/internal/test/redistest"
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
	server := redistest.Start(t)
	for name, url := range map[string]string{"embedded": "", "real": "unix://" + server.Address} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, stop, err := embedded.Open(url)
			require.NoError(t, err)
			defer stop()
			var out bytes.Buffer
			require.NoError(t, run(t.Context(), &out, url))
			require.Equal(t, `server: has the lock, and stores the video
server: hands the lock off, others get: relock: lock "video 7": lock is held by others (one attempt; see WithBlock)
worker: has the lock, and converts the video
`, out.String())
			client, err := relock.NewClientURL(url)
			require.NoError(t, err)
			defer func() { require.NoError(t, client.Close()) }()
			require.NoError(t, relock.NewRedisLock("video 7", client).TryLock(t.Context()), "the worker has unlocked it")
		})
	}
}
