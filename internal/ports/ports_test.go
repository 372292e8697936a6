package ports

import (
	"net"
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
