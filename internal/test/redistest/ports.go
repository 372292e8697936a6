package redistest

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
	firstPort  = 10000
	portBlocks = 100
	blockSize  = 100   // of a block
	busOffset  = 10000 // how far the port of the bus is above that of its server
)

// errNoPort means that a few hundred ports in a row were taken, or all blocks.
var errNoPort = errors.New("no free port of 127.0.0.1 found")

// ownPorts is what this process has. A process reserves a block of ports before
// it gives them out: it listens on the first one. Otherwise two processes would
// now and then try the same port, and a server would not get it.
var ownPorts reservedPorts

type reservedPorts struct {
	mu     sync.Mutex
	blocks []portBlock
	tried  int // blocks that were reserved, or found taken
	start  int // the block that was tried first
	given  int // ports since the first one, or since they began again
}

// portBlock is the listener on the first port of a block, and that port.
type portBlock struct {
	net.Listener
	port int
}

// next returns the next port of the blocks. When no block is left to reserve,
// it is the one that was given out longest ago.
func (r *reservedPorts) next() (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	const each = blockSize - 1
	if r.given == each*len(r.blocks) && !r.reserve() {
		r.given = 0
	}
	if len(r.blocks) == 0 {
		return 0, errNoPort
	}
	port := r.blocks[r.given/each].port + 1 + r.given%each
	r.given++
	return port, nil
}

// reserve reserves another block, and reports whether one was left; r.mu is
// held.
func (r *reservedPorts) reserve() bool {
	if r.tried == 0 {
		r.start = rand.IntN(portBlocks) // processes start at different blocks
	}
	for r.tried < portBlocks {
		port := firstPort + (r.start+r.tried)%portBlocks*blockSize
		r.tried++
		if l, err := net.Listen("tcp", loopback(port)); err == nil {
			r.blocks = append(r.blocks, portBlock{l, port})
			return true
		}
	}
	return false
}

// FindPort returns a port of 127.0.0.1 that is free. This process has not used
// it recently, and no other process gets it.
func FindPort() (string, error) { return findPort(0) }

// FindPortWithBus is Free for a server of a Cluster: the port of its bus is
// free, too.
func FindPortWithBus() (string, error) { return findPort(0, busOffset) }

// findPort returns the next port with which all ports that far above are free.
func findPort(above ...int) (string, error) {
	for range 500 {
		port, err := ownPorts.next()
		if err != nil {
			return "", err
		}
		if allPortsFree(port, above) {
			return strconv.Itoa(port), nil
		}
	}
	return "", errNoPort
}

// allPortsFree reports whether nobody listens on the ports. It does not listen
// itself: a process that is started meanwhile has the listener for a moment
// longer, and a test that waits for its server would reach that.
func allPortsFree(port int, above []int) bool {
	for _, n := range above {
		conn, err := net.Dial("tcp", loopback(port+n))
		if err == nil {
			_ = conn.Close()
			return false
		}
	}
	return true
}

func loopback(port int) string { return "127.0.0.1:" + strconv.Itoa(port) }
