// Package ports finds free ports for servers that tests start.
package ports

import (
	"errors"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
)

// The ports are below those that systems choose for connections and for
// listeners on port 0. Otherwise another process would now and then take a port
// before the server has it. The ports 10,000 above them are also below, because
// a Cluster uses them for its bus. They are no port of a block.
const (
	first  = 10000
	blocks = 100
	size   = 100   // of a block
	bus    = 10000 // how far the port of the bus is above that of its server
)

// errNone means that a few hundred ports in a row were taken, or all blocks.
var errNone = errors.New("no free port of 127.0.0.1 found")

// own is what this process has. A process reserves a block of ports before it
// gives them out: it listens on the first one. Otherwise two processes would
// now and then try the same port, and a server would not get it.
var own reserved

type reserved struct {
	mu     sync.Mutex
	blocks []block
	tried  int // blocks that were reserved, or found taken
	start  int // the block that was tried first
	given  int // ports since the first one, or since they began again
}

// block is the listener on the first port of a block, and that port.
type block struct {
	net.Listener
	port int
}

// next returns the next port of the blocks. When no block is left to reserve,
// it is the one that was given out longest ago.
func (r *reserved) next() (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	const each = size - 1
	if r.given == each*len(r.blocks) && !r.reserve() {
		r.given = 0
	}
	if len(r.blocks) == 0 {
		return 0, errNone
	}
	port := r.blocks[r.given/each].port + 1 + r.given%each
	r.given++
	return port, nil
}

// reserve reserves another block, and reports whether one was left; r.mu is
// held.
func (r *reserved) reserve() bool {
	if r.tried == 0 {
		r.start = rand.IntN(blocks) // processes start at different blocks
	}
	for r.tried < blocks {
		port := first + (r.start+r.tried)%blocks*size
		r.tried++
		if l, err := net.Listen("tcp", address(port)); err == nil {
			r.blocks = append(r.blocks, block{l, port})
			return true
		}
	}
	return false
}

// Free returns a port of 127.0.0.1 that is free. This process has not used it
// recently, and no other process gets it.
func Free() (string, error) { return free(0) }

// FreeWithBus is Free for a server of a Cluster: the port of its bus is free,
// too.
func FreeWithBus() (string, error) { return free(0, bus) }

// free returns the next port with which all ports that far above are free.
func free(above ...int) (string, error) {
	for range 500 {
		port, err := own.next()
		if err != nil {
			return "", err
		}
		if allFree(port, above) {
			return strconv.Itoa(port), nil
		}
	}
	return "", errNone
}

// allFree reports whether nobody listens on the ports. It does not listen
// itself: a process that is started meanwhile has the listener for a moment
// longer, and a test that waits for its server would reach that.
func allFree(port int, above []int) bool {
	for _, n := range above {
		conn, err := net.Dial("tcp", address(port+n))
		if err == nil {
			_ = conn.Close()
			return false
		}
	}
	return true
}

func address(port int) string { return "127.0.0.1:" + strconv.Itoa(port) }
