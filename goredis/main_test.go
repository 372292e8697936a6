package goredis_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/relock-go/relock/internal/test/redistest"
)

func TestMain(m *testing.M) {
	redistest.OverlapMore()
	goleak.VerifyTestMain(m)
}
