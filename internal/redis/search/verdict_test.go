package search

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/test/testkit"
)

// A wait that goes on is logged by a line a minute.
func TestOutvotedNoIsLoggedOnceAMinute(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		log := &testkit.Log{}
		s := New()
		s.LogTo(log.Logger())
		for _, lines := range []int{1, 1, 2} {
			s.Mu.Lock()
			s.Conclude(&LookError{outvoted: true})
			s.Mu.Unlock()
			synctest.Wait()
			require.Equal(t, lines, log.Lines("level=WARN"))
			time.Sleep(warnPause / 2)
		}
		require.NoError(t, s.Close())
	})
}
