// Package member runs each member of etcd in a separate process. So the race
// detector of a test does not slow it down, and it can be killed.
package member

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// Config is that of one member, which package serve reads. A zero clock,
// AuthTokenTTL or MaxTxnOps stands for the default.
type Config struct {
	Dir, Name    string
	Client, Peer string // addresses
	Cluster      string // as etcd's -initial-cluster
	TickMs       uint
	ElectionMs   uint
	AuthTokenTTL uint // in seconds
	MaxTxnOps    uint
}

// Member is a process. It ends with the one that started it.
type Member struct {
	Config
	cmd    *exec.Cmd
	input  io.Closer // the process ends with it
	output *bufio.Reader
}

// Start starts a member, and does not wait for it. The first one of a process
// builds the program.
func Start(c Config) (*Member, error) {
	path, err := program()
	if err != nil {
		return nil, err
	}
	config, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	m := &Member{Config: c, cmd: exec.Command(path, string(config))}
	m.cmd.Stderr = os.Stderr
	return m, m.start()
}

func (m *Member) start() error {
	input, err := m.cmd.StdinPipe()
	if err != nil {
		return err
	}
	output, err := m.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	m.input, m.output = input, bufio.NewReader(output)
	return m.cmd.Start()
}

// Ready waits until the member answers. It fails if the process ends before.
func (m *Member) Ready(limit time.Duration) error {
	ready := make(chan error, 1)
	go func() {
		_, err := m.output.ReadString('\n')
		ready <- err
	}()
	select {
	case err := <-ready:
		return err
	case <-time.After(limit):
		m.Kill()
		return errors.Join(fmt.Errorf("etcd does not get ready within %v", limit), <-ready)
	}
}

// Stop asks the member to end, and waits for that.
func (m *Member) Stop() {
	_ = m.input.Close()
	_ = m.cmd.Wait()
}

// Kill ends the member as a crash does.
func (m *Member) Kill() {
	_ = m.cmd.Process.Kill()
	_ = m.cmd.Wait()
}

// binary is the folder of the program that was built.
var binary struct {
	mu  sync.Mutex
	dir string
}

// program builds package serve once, and without the race detector, which the
// environment may ask for.
func program() (path string, err error) {
	binary.mu.Lock()
	defer binary.mu.Unlock()
	if binary.dir != "" {
		return pathIn(binary.dir), nil
	}
	dir, err := os.MkdirTemp("", "relock-etcd")
	if err != nil {
		return "", err
	}
	if err := build(pathIn(dir)); err != nil {
		_ = os.RemoveAll(dir)
		return "", err
	}
	binary.dir = dir
	return pathIn(dir), nil
}

// pathIn has the ending that Windows needs.
func pathIn(dir string) string { return filepath.Join(dir, "serve.exe") }

// build has the program copy itself: "go run" keeps in its cache what it has
// linked, and "go build" would link each time.
func build(path string) error {
	const serve = "github.com/relock-go/relock/etcd/test/internal/serve"
	out, err := exec.Command("go", "run", "-race=false", "-cover=false",
		"-ldflags=-s -w", serve, "copy", path).CombinedOutput()
	if err != nil {
		return fmt.Errorf("go run %s: %w: %s", serve, err, strings.TrimSpace(string(out)))
	}
	return nil
}

// Clean deletes the program, once all members have ended.
func Clean() {
	binary.mu.Lock()
	defer binary.mu.Unlock()
	if binary.dir != "" {
		_ = os.RemoveAll(binary.dir)
		binary.dir = ""
	}
}
