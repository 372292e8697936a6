package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/examples/internal/runs"
	"github.com/relock-go/relock/internal/test/redistest"
)

func TestMain(m *testing.M) {
	if role := os.Getenv(variable); role != "" {
		exit(work(context.Background(), os.Stdin, os.Stdout, role))
	}
	goleak.VerifyTestMain(m)
}

// The sale of the documentation with fewer buyers. Redis's append-only file has
// each order and each sale, in the order in which Redis executed them.
func TestFlashSale(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, "--appendonly", "yes")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var out bytes.Buffer
	err := run(ctx, &out, "unix://"+server.Address, 2000)
	t.Log(out.String())
	require.NoError(t, err)

	log := writes(t, server)
	orders := ids(log, "HSETNX", ":p")
	require.Len(t, unique(orders), 2000, "each buyer was in line")
	require.Equal(t, unique(orders)[:phones], ids(log, "RPUSH", "sold"))
	require.EqualValues(t, 0, server.Do(t, "DBSIZE"), "keys are left behind")

	require.Equal(t, 3, strings.Count(out.String(), "is killed (kill -9)"))
	runs.InOrder(t, out.String(), " goes on, ", "since the fencing token is stale")
	runs.InOrder(t, out.String(), " pays for phone 1", "is killed", " freezes", " goes on, ",
		"is killed", "has phone 6 already", "is killed", " has phone 10",
		"Sold out", "Seen: 10 phones for 2000 buyers")
}

// writes returns what the server has written to its append-only file.
func writes(t *testing.T, server *redistest.Server) []byte {
	t.Helper()
	dir, err := redis.Strings(server.Do(t, "CONFIG", "GET", "dir"), nil)
	require.NoError(t, err)
	var all []byte
	require.NoError(t, filepath.WalkDir(dir[1], func(path string, _ os.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".aof" {
			return err
		}
		text, err := os.ReadFile(path)
		all = append(all, text...)
		return err
	}))
	return all
}

// ids returns the first argument of each such command for a key with this end.
func ids(log []byte, command, end string) (all []string) {
	pattern := regexp.MustCompile(command + `\r\n\$\d+\r\n[^\r]*` + end + `\r\n\$\d+\r\n(buyer-\d+)\r\n`)
	for _, found := range pattern.FindAllSubmatch(log, -1) {
		all = append(all, string(found[1]))
	}
	return all
}

func unique(all []string) (once []string) {
	seen := map[string]bool{}
	for _, id := range all {
		if !seen[id] {
			seen[id] = true
			once = append(once, id)
		}
	}
	return once
}

// The program fails if too few have a phone, or one has two.
func TestJudge(t *testing.T) {
	t.Parallel()
	s, err := newShop(role{URL: "unix://" + redistest.Start(t).Address, Run: "flashsale:judge"})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.close()) })
	require.NoError(t, s.open(t.Context()))
	d := newDirector(io.Discard, role{})
	for i := range phones {
		require.ErrorContains(t, judge(t.Context(), d, s), "phones are sold")
		require.NoError(t, relock.Do(t.Context(), s.locker, stock, func(ctx context.Context) error {
			return s.sell(ctx, fmt.Sprint("buyer-", i), phones-1-i)
		}))
	}
	require.NoError(t, judge(t.Context(), d, s))
	_, err = s.client.Eval(t.Context(),
		relock.NewScript("return redis.call('LSET', KEYS[1], 0, ARGV[1])"), s.keys[1:], "buyer-1")
	require.NoError(t, err)
	require.ErrorContains(t, judge(t.Context(), d, s), "has two phones")
	require.Error(t, s.sell(t.Context(), "buyer-10", 0), "without the lock")
}

// A sale that is interrupted ends its processes.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	ctx, cancel := context.WithCancel(t.Context())
	out := writerFunc(func(line []byte) {
		if bytes.Contains(line, []byte("freezes")) {
			cancel()
		}
	})
	err := run(ctx, out, "unix://"+server.Address, 100)
	require.ErrorIs(t, err, context.Canceled)
}

type writerFunc func([]byte)

func (f writerFunc) Write(p []byte) (int, error) {
	f(p)
	return len(p), nil
}
