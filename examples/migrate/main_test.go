package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/examples/internal/runs"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

// crash is set in a process that dies under the lock.
const (
	crash      = "MIGRATE_CRASH"
	crashLease = time.Second
)

func TestMain(m *testing.M) {
	if url := os.Getenv(crash); url != "" {
		die(url)
	}
	goleak.VerifyTestMain(m)
}

// die acquires the lock of the migration with a lease of a second, and ends the
// process.
func die(url string) {
	client, err := relock.NewClientURL(url)
	if err == nil {
		err = relock.NewRedisLock("migrate/shop", client, relock.WithExpiry(crashLease)).Lock(context.Background())
	}
	fmt.Println("locked:", err)
	os.Exit(3)
}

// Three replicas migrate once.
func TestMigrate(t *testing.T) {
	t.Parallel()
	runs.OnBoth(t, run, runs.Prints("version 7 after 1 migration\n"))
}

// Sixteen replicas that start together migrate once. A process that died in the
// middle of it delays them until its lease ends.
func TestMigrateAfterACrash(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	url := "unix://" + server.Address
	dead := exec.Command(os.Args[0])
	dead.Env = append(os.Environ(), crash+"="+url)
	out, err := dead.Output()
	require.Error(t, err)
	require.True(t, strings.HasPrefix(string(out), "locked: <nil>"), string(out))

	db, replicas := &schema{}, sync.WaitGroup{}
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Patience)
	defer cancel()
	for range 16 {
		replicas.Go(func() {
			if err := start(ctx, url, db); err != nil {
				t.Error(err)
			}
		})
	}
	replicas.Wait()
	require.Equal(t, 7, db.version)
	require.Equal(t, 1, db.starts)
}
