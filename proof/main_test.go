package proof

import (
	"flag"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/relock-go/relock/internal/faults"
)

// long makes the tests run at full length: make test-long.
var long = flag.Bool("long", false, "run the tests at full length")

// patience is for what happens at once; a machine under load may need much longer.
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
	goleak.VerifyTestMain(m)
}
