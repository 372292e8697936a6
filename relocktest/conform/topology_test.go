package conform_test

import (
	"testing"

	"github.com/relock-go/relock/internal/test/locktest"
)

// Locks of a client of several servers keep the promises of all, also behind a
// faulty proxy of each server. Only the way to the servers differs, so some
// modes are enough.
func TestConformanceOverTwoServers(t *testing.T) {
	t.Parallel()
	for name, k := range locktest.ConformKinds() {
		for _, mode := range k.Few {
			t.Run(name+"/"+mode, func(t *testing.T) {
				t.Parallel()
				k.Run(t, twoServers(t, locktest.NewConformPrefix()), mode)
			})
		}
	}
}
