package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"time"
)

const childVariable = "RELOCK_BENCH_LOAD"

func processName() string { return strconv.Itoa(os.Getpid()) }

// child runs in a process that makes load. It connects, reports that it is
// ready, waits for a line, works, and prints its report.
func child(text string) error {
	var l load
	if err := json.Unmarshal([]byte(text), &l); err != nil {
		return err
	}
	if l.Work == workOnTask {
		return hangInTask(l)
	}
	lib, err := libraries[l.Library](l.Address, l.Goroutines)
	if err != nil {
		return err
	}
	defer lib.close()
	if err := connect(l.Library, lib); err != nil {
		return err
	}
	fmt.Println("ready")
	if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
		return err
	}
	r, err := works[l.Work](l, lib)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(r)
}

// connectLimit is how long the first lock of a process may take.
const connectLimit = 5 * time.Second

// connect takes a lock for a moment, so that the load finds open connections.
// The locker of a peer may never wake its first caller: that of rueidislock
// 1.0.79 did so in 2 of 380 processes beside four endless loops. So another
// lock is tried then.
func connect(name string, lib library) (err error) {
	tries := 1
	if slices.Contains(peers, name) {
		tries = 3
	}
	for n := range tries {
		ctx, cancel := context.WithTimeout(context.Background(), connectLimit)
		err = pair(ctx, lib.mutex(fmt.Sprintf("connect-%s-%d", processName(), n)))
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) {
			return err
		}
		fmt.Fprintf(os.Stderr, "bench: %s: the first lock was not there after %v\n", name, connectLimit)
	}
	return err
}

// process is a running child.
type process struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

// startProcess starts a process and returns when it is ready. The process is
// killed when ctx is cancelled.
func startProcess(ctx context.Context, l load) (*process, error) {
	text, err := json.Marshal(l)
	if err != nil {
		return nil, err
	}
	path, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &process{cmd: exec.CommandContext(ctx, path)}
	p.cmd.Env = append(os.Environ(), childVariable+"="+string(text))
	p.cmd.Stderr = os.Stderr
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.out = bufio.NewReader(out)
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	_, err = p.out.ReadString('\n')
	return p, err
}

func (p *process) report() (r report, err error) {
	err = json.NewDecoder(p.out).Decode(&r)
	return r, err
}

// stop ends a process. It has already ended unless there was an error.
func (p *process) stop() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

// run makes a load in all its processes and returns their reports.
func run(l load) ([]report, error) {
	ctx, cancel := context.WithTimeout(context.Background(), l.Ramp+l.Duration+l.Patience+30*time.Second)
	defer cancel()
	processes, err := startAll(ctx, l)
	for _, p := range processes {
		defer p.stop()
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", l.Library, err)
	}
	reports := make([]report, len(processes))
	for i, p := range processes {
		if reports[i], err = p.report(); err != nil {
			return nil, fmt.Errorf("%s: a process gave no report: %w", l.Library, err)
		}
	}
	return reports, nil
}

// startAll returns the processes that were started, even with an error.
func startAll(ctx context.Context, l load) ([]*process, error) {
	var all []*process
	for range l.Processes {
		p, err := startProcess(ctx, l)
		if p != nil && p.cmd.Process != nil {
			all = append(all, p)
		}
		if err != nil {
			return all, fmt.Errorf("a process did not start: %w", err)
		}
	}
	for _, p := range all {
		if _, err := io.WriteString(p.in, "go\n"); err != nil {
			return all, err
		}
	}
	return all, nil
}
