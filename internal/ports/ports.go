// Package ports finds free ports for servers that tests start.
package ports

import (
	"errors"
	"math/rand/v2"
	"net"
	"strconv"
	"sync/atomic"
)

// The ports are below those that systems choose for connections and for
// listeners on port 0. Otherwise another process would now and then take a port
// before the server has it. The ports 10,000 above them are also below, because
// a Cluster uses them for its bus.
const (
	first = 10000
	count = 12000
)

// errNone means that a few hundred ports in a row were taken.
var errNone = errors.New("no free port of 127.0.0.1 found")

var (
	start = rand.Uint32N(count) // each process starts at another port
	tried atomic.Uint32
)

// Free returns a port of 127.0.0.1 that is free. This process has not used it
// recently.
func Free() (string, error) {
	for range 500 {
		port := strconv.Itoa(first + int((start+tried.Add(1))%count))
		if l, err := net.Listen("tcp", "127.0.0.1:"+port); err == nil {
			return port, l.Close()
		}
	}
	return "", errNone
}
