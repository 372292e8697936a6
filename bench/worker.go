package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"
)

// load is what each process does: goroutines that take one key, hold it, give it back and think.
type load struct {
	Library    string
	Address    string
	Processes  int
	Goroutines int
	Hold       time.Duration
	Think      time.Duration
	Duration   time.Duration
}

// grant is one lock as a goroutine saw it, by the clock that all processes of a machine share (ns).
type grant struct{ Asked, Got, Gave int64 }

// result is what one goroutine of one process saw.
type result struct {
	Process int
	Grants  []grant
}

const childVariable = "RELOCK_BENCH_LOAD"

// clock is the time of day, which is the same in all processes of a machine.
func clock() int64 { return time.Now().UnixNano() }

// child runs a load in this process: it connects, says so, waits for a line, works, and prints what it saw.
func child(text string) error {
	var l load
	if err := json.Unmarshal([]byte(text), &l); err != nil {
		return err
	}
	lib, err := libraries[l.Library](l.Address)
	if err != nil {
		return err
	}
	defer lib.close()
	ctx := context.Background()
	unlock, err := lib.lock(ctx, "warm") // connects
	if err != nil {
		return err
	}
	if err := unlock(); err != nil {
		return err
	}
	fmt.Println("ready")
	if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
		return err
	}
	results, err := l.work(ctx, lib)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(results)
}

// patience is how long the last waiters have: with some libraries a wake-up that is missed is missed for good.
const patience = 5 * time.Second

func (l load) work(ctx context.Context, lib library) ([]result, error) {
	results := make([]result, l.Goroutines)
	errs := make([]error, l.Goroutines)
	end := time.Now().Add(l.Duration)
	ctx, cancel := context.WithDeadline(ctx, end.Add(patience))
	defer cancel()
	var group sync.WaitGroup
	for i := range results {
		group.Go(func() {
			for time.Now().Before(end) && errs[i] == nil {
				var g grant
				g, errs[i] = l.once(ctx, lib)
				if ctx.Err() != nil {
					errs[i] = nil // it was never woken, which its figures show
					return
				}
				results[i].Grants = append(results[i].Grants, g)
				time.Sleep(l.Think)
			}
		})
	}
	group.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return results, nil
}

func (l load) once(ctx context.Context, lib library) (g grant, err error) {
	g.Asked = clock()
	unlock, err := lib.lock(ctx, "key")
	if err != nil {
		return g, err
	}
	g.Got = clock()
	time.Sleep(l.Hold)
	g.Gave = clock()
	return g, unlock()
}

// process is a child under way.
type process struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

func startProcess(l load) (*process, error) {
	text, err := json.Marshal(l)
	if err != nil {
		return nil, err
	}
	path, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &process{cmd: exec.Command(path)}
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

// run runs a load in all its processes and returns what each goroutine saw.
func run(l load) ([]result, error) {
	var processes []*process
	defer func() {
		for _, p := range processes {
			_ = p.cmd.Process.Kill() // it has ended, but for an error
			_ = p.cmd.Wait()
		}
	}()
	for range l.Processes {
		p, err := startProcess(l)
		if p != nil && p.cmd.Process != nil {
			processes = append(processes, p)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", l.Library, err)
		}
	}
	for _, p := range processes {
		if _, err := io.WriteString(p.in, "go\n"); err != nil {
			return nil, err
		}
	}
	var all []result
	for i, p := range processes {
		var results []result
		if err := json.NewDecoder(p.out).Decode(&results); err != nil {
			return nil, fmt.Errorf("%s: %w", l.Library, err)
		}
		for _, r := range results {
			r.Process = i
			all = append(all, r)
		}
	}
	return all, nil
}
