package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"
)

// process is one of the competitors. It requests the lock once for each line of
// its input.
type process struct {
	cmd    *exec.Cmd
	input  io.WriteCloser
	output bytes.Buffer
}

// start runs this program again, in that role. It is killed when ctx is
// cancelled.
func start(ctx context.Context, r role) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	p := &process{cmd: exec.CommandContext(ctx, self)}
	p.cmd.Env = append(os.Environ(), variable+"="+string(text))
	p.cmd.Stdout, p.cmd.Stderr = &p.output, os.Stderr
	if p.input, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	return p, p.cmd.Start()
}

// compete runs the processes and returns their turns in order. It holds the
// lock itself until all have requested it.
func compete(ctx context.Context, r role) (turns []turn, err error) {
	b, err := backends[r.Backend].open(r.Server, r.Fair)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	held, err := b.locker.TryLock(ctx, key)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	all, err := startAll(ctx, r)
	if err == nil {
		err = askInTurn(ctx, b, r.Fair, all)
	}
	if err = errors.Join(err, held.Unlock(ctx)); err != nil {
		cancel()
	}
	turns, ended := collect(all)
	return turns, errors.Join(err, ended)
}

func startAll(ctx context.Context, r role) (all []*process, err error) {
	for r.Number = 1; r.Number <= processes; r.Number++ {
		p, err := start(ctx, r)
		if err != nil {
			return all, err
		}
		all = append(all, p)
	}
	return all, nil
}

// askInTurn has the processes request the lock one after the other. For a fair
// lock, each call queues before the next one is made.
func askInTurn(ctx context.Context, b backend, fair bool, all []*process) error {
	for n := range processes * goroutines {
		if _, err := fmt.Fprintln(all[n%processes].input, n+1); err != nil {
			return err
		}
		if !fair {
			continue
		}
		if err := await(ctx, b, n+1); err != nil {
			return err
		}
	}
	for _, p := range all {
		if err := p.input.Close(); err != nil {
			return err
		}
	}
	return nil
}

// await returns when so many wait for the lock.
func await(ctx context.Context, b backend, n int) error {
	for {
		waiting, err := b.waiting(ctx)
		if err != nil || waiting >= n {
			return err
		}
		time.Sleep(time.Millisecond)
	}
}

// collect waits for the processes to end.
func collect(all []*process) (turns []turn, failed error) {
	for _, p := range all {
		failed = errors.Join(failed, p.cmd.Wait())
		for lines := json.NewDecoder(&p.output); lines.More(); {
			var t turn
			if err := lines.Decode(&t); err != nil {
				failed = errors.Join(failed, err)
				break
			}
			turns = append(turns, t)
		}
	}
	inOrder(turns)
	return turns, failed
}
