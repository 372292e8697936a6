package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/relock-go/relock"
	etcdlock "github.com/relock-go/relock/etcd"
	"github.com/relock-go/relock/internal/test/competition"
)

// compete runs the processes and returns their turns in order.
func compete(ctx context.Context, endpoints, mode string, hold time.Duration) ([]competition.Turn, error) {
	outputs, failed := make([]io.Reader, competition.Processes), make([]error, competition.Processes)
	var group sync.WaitGroup
	for n := range competition.Processes {
		output := &bytes.Buffer{}
		outputs[n] = output
		group.Go(func() {
			failed[n] = runWorker(ctx, competition.Role{Number: n + 1, Server: endpoints, Mode: mode, Hold: hold}, output)
		})
	}
	group.Wait()
	if err := errors.Join(failed...); err != nil {
		return nil, err
	}
	return competition.Collect(outputs...)
}

func runWorker(ctx context.Context, role competition.Role, out io.Writer) error {
	cmd, err := role.Command(ctx)
	if err != nil {
		return err
	}
	cmd.Stdout = out
	return cmd.Run()
}

// work is one process.
func work(ctx context.Context, out io.Writer, text string) error {
	role, err := competition.ParseRole(text)
	if err != nil {
		return err
	}
	client, err := clientv3.New(clientv3.Config{Endpoints: strings.Split(role.Server, ","), Logger: zap.NewNop()})
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }()
	var opts []etcdlock.Option
	if role.Mode == competition.Fair {
		opts = append(opts, etcdlock.WithFair())
	}
	locker, err := etcdlock.NewLocker(client, opts...)
	if err != nil {
		return err
	}
	defer func() { _ = locker.Close() }()
	return takeTurns(ctx, out, locker, role)
}

func takeTurns(ctx context.Context, out io.Writer, locker relock.Locker, role competition.Role) error {
	failed := make(chan error, competition.Goroutines)
	var mu sync.Mutex
	lines := json.NewEncoder(out)
	for n := range competition.Goroutines {
		go func() {
			t := competition.Turn{Process: role.Number, Goroutine: n + 1, Asked: time.Now().UnixNano()}
			failed <- relock.Do(ctx, locker, "competition", func(ctx context.Context) error {
				held, _ := relock.HoldFromContext(ctx, "competition")
				t.From, t.Place = time.Now().UnixNano(), held.Fence() // the token of a fair lock is its queue position
				time.Sleep(role.Hold)
				t.To = time.Now().UnixNano()
				mu.Lock()
				defer mu.Unlock()
				return lines.Encode(t)
			})
		}()
	}
	var first error
	for range competition.Goroutines {
		if err := <-failed; first == nil {
			first = err
		}
	}
	return first
}
