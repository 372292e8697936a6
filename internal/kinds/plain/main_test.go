package plain_test

import (
	"os"
	"testing"

	"github.com/relock-go/relock/internal/test/locktest"
)

func TestMain(m *testing.M) { os.Exit(locktest.Run(m)) }
