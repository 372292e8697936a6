package conform_test

import (
	"flag"
	"runtime"
	"strconv"
	"testing"

	"go.uber.org/goleak"

	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/redistest"
)

// TestMain lets more tests wait together than OverlapMore does, unless the
// command line sets a number: many of them wait for leases to go by.
func TestMain(m *testing.M) {
	flag.Parse()
	if cores := runtime.GOMAXPROCS(0); flag.Lookup("test.parallel").Value.String() == strconv.Itoa(cores) {
		_ = flag.Set("test.parallel", strconv.Itoa(16*cores))
	}
	redistest.OverlapMore()
	goleak.VerifyTestMain(m)
}

// Every kind of lock keeps the promises of all, fair and unfair.
func TestConformance(t *testing.T) {
	t.Parallel()
	for name, k := range locktest.ConformKinds() {
		for mode := range locktest.ConformModes() {
			t.Run(name+"/"+mode, func(t *testing.T) {
				t.Parallel()
				k.Run(t, oneServer(t), mode)
			})
		}
	}
}
