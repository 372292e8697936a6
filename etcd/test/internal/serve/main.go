// Serve runs an etcd for the examples of etcdlock, whose module does not
// download a server. It prints the address, and ends with its standard input.
package main

import (
	"fmt"
	"io"
	"os"

	"github.com/relock-go/relock/etcd/test/internal/embedded"
)

func main() {
	address, stop, err := embedded.Start()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	defer stop()
	fmt.Println(address)
	_, _ = io.Copy(io.Discard, os.Stdin)
}
