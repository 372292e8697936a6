// Package ports finds free ports for servers that tests start.
package ports

import (
	"errors"
	"math/rand/v2"
	"net"
	"strconv"
	"sync/atomic"
)

// The ports are below those that systems choose from by themselves, for connections and for listeners on port 0: else one
// would be gone, now and then, before the server has it. So are those 10,000 above them, where a Cluster has its bus.
const (
	first = 10000
	count = 12000
)

// errNone means that a few hundred ports in a row were taken.
var errNone = errors.New("no free port of 127.0.0.1 found")

var (
	start = rand.Uint32N(count) // each process begins somewhere else
	tried atomic.Uint32
)

// Free returns a port of 127.0.0.1 on which nobody listens, and which this process has not had for long.
func Free() (string, error) {
	for range 500 {
		port := strconv.Itoa(first + int((start+tried.Add(1))%count))
		if l, err := net.Listen("tcp", "127.0.0.1:"+port); err == nil {
			return port, l.Close()
		}
	}
	return "", errNone
}
