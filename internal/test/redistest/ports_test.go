package redistest

import (
	"net"
	"strconv"
	"testing"
)

func TestFree(t *testing.T) {
	seen := map[string]bool{}
	for range 3 * blockSize {
		port, err := FindPort()
		if err != nil {
			t.Fatal(err)
		}
		if seen[port] {
			t.Fatalf("%s twice", port)
		}
		seen[port] = true
	}
}

// A port that is in use is skipped.
func TestFreeWhereOneIsTaken(t *testing.T) {
	taken, err := FindPort()
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:"+taken)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	ownPorts.given-- // so that it is the next one again
	port, err := FindPort()
	if err != nil || port == taken {
		t.Fatalf("%s, %v", port, err)
	}
}

// A port whose bus has no port is skipped.
func TestFreeWithBusWhereOneIsTaken(t *testing.T) {
	free, err := FindPortWithBus()
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(free)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(port+busOffset))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	ownPorts.given-- // so that it is the next one again
	if next, err := FindPortWithBus(); err != nil || next == free {
		t.Fatalf("%s, %v", next, err)
	}
}

// Two processes never get the same port.
func TestBlocksAreReserved(t *testing.T) {
	one, other := &reservedPorts{}, &reservedPorts{}
	defer one.release()
	defer other.release()
	one.mustNext(t)
	other.start, other.tried = one.start, 1
	seen := map[int]bool{}
	for range 3 * blockSize {
		seen[one.mustNext(t)] = true
	}
	for range 3 * blockSize {
		if port := other.mustNext(t); seen[port] {
			t.Fatalf("%d twice", port)
		}
	}
}

// Without another block, the ports come again in their order.
func TestBlocksAreUsedUp(t *testing.T) {
	r := &reservedPorts{}
	defer r.release()
	begin := r.mustNext(t)
	r.tried = portBlocks
	for range blockSize - 2 {
		r.mustNext(t)
	}
	if again := r.mustNext(t); again != begin {
		t.Fatalf("%d, then %d", begin, again)
	}
}

// A process that got no block gets no port of another one's.
func TestNoBlockIsLeft(t *testing.T) {
	r := &reservedPorts{tried: portBlocks}
	if port, err := r.next(); err == nil {
		t.Fatalf("%d", port)
	}
}

func (r *reservedPorts) mustNext(t *testing.T) int {
	t.Helper()
	port, err := r.next()
	if err != nil {
		t.Fatal(err)
	}
	return port
}

func (r *reservedPorts) release() {
	for _, b := range r.blocks {
		_ = b.Close()
	}
}
