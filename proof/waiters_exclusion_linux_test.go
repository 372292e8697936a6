package proof

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/test/faults"
)

// Processes whose goroutines wait for one lock increment an unprotected number:
// no update is lost.
func TestExclusionOfWaiters(t *testing.T) {
	eachWaitedLock(t, func(b *waitBench) {
		times := pick(300, 15)
		path, shared := newShared[register](b)
		var children []*faults.Child
		start := time.Now()
		for range competing {
			children = append(children, faults.Spawn(b, "counters",
				b.server.Network, b.server.Address, b.kind, b.mode, waitedKey, path, strconv.Itoa(times)))
		}
		for _, child := range children {
			require.Equal(b, "true", child.Next("counted", 5*patience).Values[0])
			child.End(patience)
		}
		total := int64(competing * contenders * times)
		b.Logf("%d increments in %v", total, time.Since(start))
		require.Equal(b, total, shared.read())
		key := keyInRedis(waitedKey)
		b.await(func() bool { return b.number("EXISTS", key, key+":q") == 0 }, "something is left")
	})
}
