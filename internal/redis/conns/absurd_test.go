package conns

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/redis/driver"
	"github.com/relock-go/relock/internal/redis/wire"
	"github.com/relock-go/relock/internal/test/redistest"
)

// The same on a socket that a caller waits on, where an absurd answer counts as
// none, and its connection is not used again.
func TestAbsurdAnswerToACall(t *testing.T) {
	t.Parallel()
	s := redistest.ServeText(t, ":18446744073709551617\r\n", 1)
	d := newTestPool(t, s)
	o := d.Call(t.Context(), driver.Limits{}, echo("x"))
	require.ErrorIs(t, o.Err, wire.ErrAbsurd)
	require.False(t, o.Answered)
	require.Zero(t, d.Connections())
}
