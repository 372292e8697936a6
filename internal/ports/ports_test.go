package ports

import (
	"net"
	"strconv"
	"testing"
)

func TestFree(t *testing.T) {
	seen := map[string]bool{}
	for range 3 * size {
		port, err := Free()
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
	taken, err := Free()
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:"+taken)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	own.given-- // so that it is the next one again
	port, err := Free()
	if err != nil || port == taken {
		t.Fatalf("%s, %v", port, err)
	}
}

// A port whose bus has no port is skipped.
func TestFreeWithBusWhereOneIsTaken(t *testing.T) {
	free, err := FreeWithBus()
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(free)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(port+bus))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	own.given-- // so that it is the next one again
	if next, err := FreeWithBus(); err != nil || next == free {
		t.Fatalf("%s, %v", next, err)
	}
}

// Two processes never get the same port.
func TestBlocksAreReserved(t *testing.T) {
	var one, other reserved
	defer one.release()
	defer other.release()
	one.next()
	other.start, other.tried = one.start, 1
	seen := map[int]bool{}
	for range 3 * size {
		seen[one.next()] = true
	}
	for range 3 * size {
		if port := other.next(); seen[port] {
			t.Fatalf("%d twice", port)
		}
	}
}

// Without another block, the ports come again in their order.
func TestBlocksAreUsedUp(t *testing.T) {
	var r reserved
	defer r.release()
	begin := r.next()
	r.tried = blocks
	for range size - 2 {
		r.next()
	}
	if again := r.next(); again != begin {
		t.Fatalf("%d, then %d", begin, again)
	}
}

func (r *reserved) release() {
	for _, l := range r.held {
		_ = l.Close()
	}
}
