package conns

import (
	"io"
	"os"
	"syscall"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/redis/driver"
	"github.com/relock-go/relock/internal/redis/wire"
)

// Only a server that has never answered in plain text may want TLS.
func TestConnectionThatEndsBeforeAnAnswer(t *testing.T) {
	t.Parallel()
	const hint = "rediss://"
	var d Pool
	for _, err := range []error{io.EOF, syscall.ECONNRESET} {
		require.ErrorContains(t, d.explain(wire.UnacceptedError{Err: err, Plain: true}), hint)
		require.ErrorIs(t, d.explain(wire.UnacceptedError{Err: err, Plain: true}), err)
		require.True(t, driver.IsTransient(d.explain(wire.UnacceptedError{Err: err, Plain: true})))
		require.NotContains(t, d.explain(wire.UnacceptedError{Err: err}).Error(), hint, "it is encrypted")
		require.NotContains(t, d.explain(err).Error(), hint, "it has answered on this connection")
	}
	require.NotContains(t, d.explain(wire.UnacceptedError{Err: os.ErrDeadlineExceeded, Plain: true}).Error(), hint,
		"it is silent")
	require.NotContains(t, d.explain(wire.UnacceptedError{Err: redis.Error("LOADING"), Plain: true}).Error(), hint,
		"it answers")
	d.noteAnswered()
	require.NotContains(t, d.explain(wire.UnacceptedError{Err: io.EOF, Plain: true}).Error(), hint,
		"it has answered before")
}
