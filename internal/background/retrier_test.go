package background

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/redis/driver"
	"github.com/relock-go/relock/internal/script"
)

// However long a clean-up has gone on, it is sent again within a second: a late
// request holds the key no longer.
func TestCleanUpPausesForLessThanASecond(t *testing.T) {
	t.Parallel()
	nothing := driver.Result{Answered: true, Reply: int64(script.NotHeld)}
	silence := driver.Result{Err: driver.ErrTimeout}
	for name, o := range map[string]driver.Result{"answered": nothing, "not answered": silence} {
		now := time.Now()
		job := NewRelease("k", time.Hour, time.Hour, script.Indeterminate{Last: now}, nil)
		for try := range 100 {
			o.Sent = now
			again, ok := job.Handle(o)
			require.True(t, ok, "%s, try %d", name, try)
			require.Less(t, again.Sub(now), time.Second, "%s, try %d", name, try)
			now = again
		}
	}
	require.Less(t, RetryLimit, time.Second, "so long it waits for an answer")
}
