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

// examples is the server that the examples share.
var examples struct {
	once sync.Once
	serverProcess
}

// ServerAddress is that of a server, which the first example starts.
func ServerAddress() string {
	examples.once.Do(func() { examples.start() })
	return examples.address
}

// serverProcess is a program of module test, which depends on etcd's server.
type serverProcess struct {
	address string
	input   io.Closer // the server ends with it
	cmd     *exec.Cmd
}

// start starts the server with the defaults, or with the config of a member.
func (p *serverProcess) start(config ...string) {
	p.cmd = exec.Command("go", append([]string{"run", "-C", "test", "./internal/serve"}, config...)...)
	p.cmd.Stderr = os.Stderr
	input, _ := p.cmd.StdinPipe()
	output, _ := p.cmd.StdoutPipe()
	if err := p.cmd.Start(); err != nil {
		panic(err)
	}
	p.input = input
	line, err := bufio.NewReader(output).ReadString('\n')
	if err != nil {
		panic(err)
	}
	p.address = strings.TrimSpace(line)
}

func (p *serverProcess) stop() {
	if p.input != nil {
		_ = p.input.Close()
		_ = p.cmd.Wait()
	}
}

// skipWhereDownloaded skips what needs a server, except under CI, if this
// module was downloaded without its module test, for example by "go test all".
func skipWhereDownloaded() {
	if _, err := os.Stat("test/go.mod"); err == nil {
		return
	}
	if os.Getenv("CI") != "" {
		fmt.Fprintln(os.Stderr, "no server: module test is not here")
		os.Exit(1)
	}
	fmt.Fprintln(os.Stderr, "tests with a server are skipped: module test, which has it, is not here")
	_ = flag.Set("test.skip", "^Example|OnServer$")
}
