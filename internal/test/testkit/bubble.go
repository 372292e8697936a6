package testkit

import (
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
)

var bubble sync.Mutex

// Bubble runs f in a bubble of [synctest.Test], on one processor. On two, the
// race detector crashes now and then when timers of a bubble fire together:
// golang/go#78156. Bubbles run one at a time.
func Bubble(t *testing.T, f func(*testing.T)) {
	t.Helper()
	bubble.Lock()
	defer bubble.Unlock()
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	synctest.Test(t, f)
}
