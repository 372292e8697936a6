package cluster

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/relock-go/relock/internal/test/redistest"
)

func TestMain(m *testing.M) {
	redistest.Overlap()
	goleak.VerifyTestMain(m)
}
