package ports

import (
	"net"
	"strconv"
	"testing"
)

func TestFree(t *testing.T) {
	seen := map[string]bool{}
	for range 100 {
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
	tried.Add(^uint32(0)) // so that it is the next one again
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
	tried.Add(^uint32(0)) // so that it is the next one again
	if next, err := FreeWithBus(); err != nil || next == free {
		t.Fatalf("%s, %v", next, err)
	}
}
