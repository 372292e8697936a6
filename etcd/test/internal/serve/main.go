// Serve runs one member of etcd, which ends with its standard input. It prints
// the address as soon as the member answers. Without an argument it is a server
// for the examples of etcdlock, whose module does not download one. Tests have
// it copied ("copy" and a path), and start the copy with a member.Config. One
// without addresses runs that server with the config's limit of operations.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/relock-go/relock/etcd/test/embedded"
	"github.com/relock-go/relock/etcd/test/internal/member"
)

func main() {
	if len(os.Args) == 3 && os.Args[1] == "copy" {
		fail(copyTo(os.Args[2]))
		return
	}
	start := embedded.Start
	if len(os.Args) > 1 {
		start = func() (string, func(), error) { return startMember(os.Args[1]) }
	}
	stop := make(chan func(), 1)
	go func() { stop <- announce(start) }()
	_, _ = io.Copy(io.Discard, os.Stdin)
	select {
	case end := <-stop:
		time.AfterFunc(10*time.Second, func() { os.Exit(1) }) // etcd waits for half of that for its clients
		end()
	case <-time.After(2 * time.Second): // it may wait for the others of its cluster
		os.Exit(1)
	}
}

// announce prints the address of the server that it starts.
func announce(start func() (string, func(), error)) (stop func()) {
	address, stop, err := start()
	fail(err)
	fmt.Println(address)
	return stop
}

func startMember(config string) (address string, stop func(), err error) {
	var c member.Config
	if err := json.Unmarshal([]byte(config), &c); err != nil {
		return "", nil, err
	}
	if c.Client == "" {
		return embedded.StartStrict(c.MaxTxnOps)
	}
	stop, err = embedded.StartMember(c)
	return c.Client, stop, err
}

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// copyTo writes this program to another file.
func copyTo(path string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	program, err := os.ReadFile(self)
	if err != nil {
		return err
	}
	return os.WriteFile(path, program, 0o700)
}
