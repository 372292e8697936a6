package etcdlock

import (
	"bufio"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
)

// examples is the server that the examples share. It is a program of module
// test, which depends on etcd's server.
var examples exampleServer

type exampleServer struct {
	once    sync.Once
	address string
	input   io.Closer // the server ends with it
	cmd     *exec.Cmd
}

// ServerAddress is that of a server, which the first example starts.
func ServerAddress() string {
	examples.once.Do(examples.start)
	return examples.address
}

func (e *exampleServer) start() {
	e.cmd = exec.Command("go", "run", "-C", "test", "./internal/serve")
	e.cmd.Stderr = os.Stderr
	input, _ := e.cmd.StdinPipe()
	output, _ := e.cmd.StdoutPipe()
	if err := e.cmd.Start(); err != nil {
		panic(err)
	}
	e.input = input
	line, err := bufio.NewReader(output).ReadString('\n')
	if err != nil {
		panic(err)
	}
	e.address = strings.TrimSpace(line)
}

func (e *exampleServer) stop() {
	if e.input != nil {
		_ = e.input.Close()
		_ = e.cmd.Wait()
	}
}

// skipWhereDownloaded skips the examples, except under CI, if this module was
// downloaded without its module test, for example by "go test all".
func (e *exampleServer) skipWhereDownloaded() {
	if _, err := os.Stat("test/go.mod"); err == nil {
		return
	}
	if os.Getenv("CI") != "" {
		fmt.Fprintln(os.Stderr, "no server for the examples: module test is not here")
		os.Exit(1)
	}
	fmt.Fprintln(os.Stderr, "examples are skipped: module test, which has their server, is not here")
	_ = flag.Set("test.skip", "^Example")
}
