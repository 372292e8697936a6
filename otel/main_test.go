package relockotel_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/relock-go/relock/internal/test/faults"
	"github.com/relock-go/relock/internal/test/redistest"
)

func TestMain(m *testing.M) {
	faults.RunChild(map[string]faults.Role{"sender": sender})
	redistest.Overlap()
	goleak.VerifyTestMain(m)
}
