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
func Free() (string, error) { return free(0) }

// bus is how far the port of the bus is above that of a server of a Cluster.
const bus = 10000

// FreeWithBus is Free for a server of a Cluster: the port of its bus is free,
// too.
func FreeWithBus() (string, error) { return free(0, bus) }

// free returns the next port with which all ports that far above are free.
func free(above ...int) (string, error) {
	for range 500 {
		port := first + int((start+tried.Add(1))%count)
		if allFree(port, above) {
			return strconv.Itoa(port), nil
		}
	}
	return "", errNone
}

func allFree(port int, above []int) bool {
	for _, n := range above {
		l, err := net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(port+n))
		if err != nil || l.Close() != nil {
			return false
		}
	}
	return true
}
