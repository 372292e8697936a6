package proof

import (
	"flag"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/relock-go/relock/internal/test/faults"
)

// long makes the tests run at full length: make test-long.
var long = flag.Bool("long", false, "run the tests at full length")

// patience limits the wait for something that is usually immediate. A machine
// under load may need much longer.
const patience = 60 * time.Second

// pick returns the size of a test: of the long version or the small one.
func pick[T any](full, small T) T {
	if *long {
		return full
	}
	return small
}

func TestMain(m *testing.M) {
	faults.RunChild(roles)
	flag.Parse()
	if err := setRapid(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m)
}

// together runs the cases at the same time. They count as one parallel test:
// for tests that spend their time waiting.
func together[C any](t *testing.T, cases map[string]C, test func(t *testing.T, c C)) {
	t.Helper()
	var group sync.WaitGroup
	for name, c := range cases {
		group.Go(func() {
			t.Run(name, func(t *testing.T) { test(t, c) })
		})
	}
	group.Wait()
}
