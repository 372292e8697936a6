package test

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/relock-go/relock/etcd/test/internal/member"
	children "github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/redistest"
)

func TestMain(m *testing.M) {
	children.RunChild(map[string]children.Role{"hold": holdRole, "workers": workersRole})
	redistest.OverlapMore()
	code := m.Run()
	member.Clean()
	if left := leaked(); left != "" && code == 0 {
		fmt.Fprintln(os.Stderr, "goroutines of a Locker are left:\n"+left)
		code = 1
	}
	os.Exit(code)
}

// leaked are goroutines of Lockers, all of which are closed when it is called.
func leaked() string {
	var left []string
	for range 500 {
		left = nil
		buffer := make([]byte, 1<<24)
		for _, stack := range strings.Split(string(buffer[:runtime.Stack(buffer, true)]), "\n\n") {
			if strings.Contains(stack, "github.com/relock-go/relock/etcd.(*") {
				left = append(left, stack)
			}
		}
		if len(left) == 0 {
			return ""
		}
		time.Sleep(10 * time.Millisecond)
	}
	return strings.Join(left, "\n\n")
}
