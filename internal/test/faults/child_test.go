package faults

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	RunChild(childRoles)
	goleak.VerifyTestMain(m)
}
