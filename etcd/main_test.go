package etcdlock

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
)

// All Lockers are closed when the tests have run, and have left no goroutine.
func TestMain(m *testing.M) {
	skipWhereDownloaded()
	code := m.Run()
	examples.stop()
	left := leaked()
	for end := time.Now().Add(30 * time.Second); left != "" && time.Now().Before(end); left = leaked() {
		time.Sleep(10 * time.Millisecond)
	}
	if left != "" && code == 0 {
		fmt.Fprintln(os.Stderr, "a goroutine is left:\n"+left)
		code = 1
	}
	os.Exit(code)
}

// leaked is one goroutine of this package that still runs, or "".
func leaked() string {
	stacks := make([]byte, 1<<20)
	for _, stack := range strings.Split(string(stacks[:runtime.Stack(stacks, true)]), "\n\n") {
		if strings.Contains(stack, "relock/etcd.(*") {
			return stack
		}
	}
	return ""
}
