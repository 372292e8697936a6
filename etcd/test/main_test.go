package test

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/relock-go/relock/etcd/test/internal/member"
	children "github.com/relock-go/relock/internal/test/faults"
	"github.com/relock-go/relock/internal/test/redistest"
)

func TestMain(m *testing.M) {
	children.RunChild(map[string]children.Role{"hold": holdRole, "workers": workersRole, "campaign": campaignRole})
	overlap()
	code := m.Run()
	member.Clean()
	if left := leaked(); left != "" && code == 0 {
		fmt.Fprintln(os.Stderr, "goroutines of a Locker are left:\n"+left)
		code = 1
	}
	os.Exit(code)
}

// overlap runs more tests side by side than OverlapMore does, unless a flag
// says how many: most wait for the end of a lease.
func overlap() {
	flag.Parse()
	if cores := runtime.GOMAXPROCS(0); flag.Lookup("test.parallel").Value.String() == strconv.Itoa(cores) {
		_ = flag.Set("test.parallel", strconv.Itoa(6*cores))
	}
	redistest.OverlapMore()
}

// leaked are goroutines of Lockers, all of which are closed when it is called.
func leaked() string {
	var left []string
	for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		left = nil
		buffer := make([]byte, 1<<24)
		for _, stack := range strings.Split(string(buffer[:runtime.Stack(buffer, true)]), "\n\n") {
			if strings.Contains(stack, "github.com/relock-go/relock/etcd.(*") {
				left = append(left, stack)
			}
		}
		if len(left) == 0 || time.Now().After(end) {
			return strings.Join(left, "\n\n")
		}
	}
}
