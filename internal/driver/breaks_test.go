package driver

import (
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Whether an idle connection is older than a break is not asked of the wall
// clock, which may be set back.
func TestBreaksAreCountedByTheMonotonicClock(t *testing.T) {
	t.Parallel()
	d := newPool(&Config{})
	defer d.end()
	before := time.Now()
	o := d.outcome(before, nil, io.EOF)
	require.True(t, o.Broke())
	require.ErrorIs(t, d.check(nil, before), errStale)
	require.NoError(t, d.check(nil, time.Now()))
	require.Less(t, d.broken.Load(), int64(time.Hour), "counted from the start of the client")
}
