package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
)

// variable is the environment variable with the role of a process.
const variable = "RELOCK_FLASHSALE_PROCESS"

// role is what a process has to do.
type role struct {
	Number int // from 0
	Buyers int // of all processes
	Run    string
	URL    string
}

// event is what a process reports.
type event struct {
	What  string
	Buyer string
	Phone int

	from *process
	err  error // of the process, if it has ended
}

// What a process reports. It waits for an answer after the first two.
const (
	pays    = "pays"
	sold    = "sold"
	has     = "has"     // a repeated order: the buyer has its phone
	refused = "refused" // a late write
	ended   = "ended"   // the process itself
)

// process is one of the four, until it ends.
type process struct {
	role   role
	cmd    *exec.Cmd
	input  io.WriteCloser
	killed bool
}

// start runs this program again. It reports events until it ends, or ctx does.
func start(ctx context.Context, r role, events chan<- event) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	p := &process{role: r, cmd: exec.CommandContext(ctx, self)}
	p.cmd.Env = append(os.Environ(), variable+"="+string(text))
	p.cmd.Stderr = os.Stderr
	if p.input, err = p.cmd.StdinPipe(); err != nil {
		return err
	}
	output, err := p.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := p.cmd.Start(); err != nil {
		return err
	}
	go p.read(output, events) // ends with the process, which the director waits for
	return nil
}

func (p *process) read(output io.Reader, events chan<- event) {
	for lines := json.NewDecoder(output); ; {
		e := event{from: p}
		if lines.Decode(&e) != nil {
			break // it has ended, perhaps in the middle of a line
		}
		events <- e
	}
	events <- event{What: ended, from: p, err: p.cmd.Wait()}
}

// answer lets the process go on. One that has ended reports that itself.
func (p *process) answer() { _, _ = fmt.Fprintln(p.input, "go on") }

func (p *process) kill() error {
	p.killed = true
	if err := p.cmd.Process.Kill(); !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}
