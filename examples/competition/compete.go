package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/competition"
)

const key = "competition"

// worker is one of the processes. It requests the lock once for each line of
// its input.
type worker struct {
	cmd    *exec.Cmd
	input  io.WriteCloser
	output bytes.Buffer
}

func startWorker(ctx context.Context, role competition.Role) (w *worker, err error) {
	w = &worker{}
	if w.cmd, err = role.Command(ctx); err != nil {
		return nil, err
	}
	w.cmd.Stdout = &w.output
	if w.input, err = w.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	return w, w.cmd.Start()
}

// compete runs the processes and returns their turns in order. It holds the
// lock itself until all have requested it.
func compete(ctx context.Context, url, mode string, hold time.Duration) (turns []competition.Turn, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends the workers, should something go wrong
	client, err := relock.NewClientURL(url)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, client.Close()) }()
	held, err := relock.NewRedisLock(key, client, options(mode)...).Acquire(ctx)
	if err != nil {
		return nil, err
	}
	var workers []*worker
	for n := range competition.Processes {
		w, err := startWorker(ctx, competition.Role{Number: n + 1, Server: url, Mode: mode, Hold: hold})
		if err != nil {
			return nil, err
		}
		workers = append(workers, w)
	}
	if err := askInTurn(ctx, client, mode, workers); err != nil {
		return nil, err
	}
	if err := held.Unlock(ctx); err != nil {
		return nil, err
	}
	return collect(workers)
}

// collect waits for the workers to end.
func collect(workers []*worker) ([]competition.Turn, error) {
	var outputs []io.Reader
	for _, w := range workers {
		if err := w.cmd.Wait(); err != nil {
			return nil, err
		}
		outputs = append(outputs, &w.output)
	}
	return competition.Collect(outputs...)
}

// askInTurn has the workers request the lock one after the other. For a fair
// lock each goroutine queues before the next request. For an unfair one each
// process is one waiter in the queue.
func askInTurn(ctx context.Context, client *relock.Client, mode string, workers []*worker) error {
	for n := range competition.Processes * competition.Goroutines {
		if _, err := fmt.Fprintln(workers[n%competition.Processes].input, n+1); err != nil {
			return err
		}
		waiting := min(n+1, competition.Processes)
		if mode == competition.Fair {
			waiting = n + 1
		}
		if err := await(ctx, client, waiting); err != nil {
			return err
		}
	}
	for _, w := range workers {
		if err := w.input.Close(); err != nil {
			return err
		}
	}
	return nil
}

// await returns when so many wait for the lock.
func await(ctx context.Context, client *relock.Client, n int) error {
	for {
		info, err := client.Inspect(ctx, key)
		if err != nil || info.Waiting >= n {
			return err
		}
		time.Sleep(time.Millisecond)
	}
}

func options(mode string) []relock.LockOption {
	if mode == competition.Fair {
		return []relock.LockOption{relock.WithBlock(), relock.WithFair()}
	}
	return []relock.LockOption{relock.WithBlock()}
}
