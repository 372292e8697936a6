package conform_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/relock-go/relock/internal/conformtest"
	"github.com/relock-go/relock/internal/redistest"
)

func TestMain(m *testing.M) {
	redistest.OverlapMore()
	goleak.VerifyTestMain(m)
}

// Every kind of lock keeps the promises of all, fair and unfair.
func TestConformance(t *testing.T) {
	for name, k := range conformtest.Kinds() {
		for mode := range conformtest.Modes() {
			t.Run(name+"/"+mode, func(t *testing.T) {
				t.Parallel()
				k.Run(t, oneServer(t), mode)
			})
		}
	}
}
