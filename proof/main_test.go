package proof

import (
	"flag"
	"testing"

	"go.uber.org/goleak"

	"github.com/relock-go/relock/internal/faults"
)

// long makes the tests run at full length: make test-long.
var long = flag.Bool("long", false, "run the tests at full length")

func TestMain(m *testing.M) {
	faults.RunChild(roles)
	flag.Parse()
	goleak.VerifyTestMain(m)
}
