package driver

import (
	"io"
	"os"
	"syscall"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"
)

// Only a server that has never answered in plain text may want TLS.
func TestConnectionThatEndsBeforeAnAnswer(t *testing.T) {
	t.Parallel()
	const hint = "rediss://"
	var d Pool
	for _, err := range []error{io.EOF, syscall.ECONNRESET} {
		require.ErrorContains(t, d.explain(unacceptedError{err, true}), hint)
		require.ErrorIs(t, d.explain(unacceptedError{err, true}), err)
		require.True(t, IsTransient(d.explain(unacceptedError{err, true})))
		require.NotContains(t, d.explain(unacceptedError{err, false}).Error(), hint, "it is encrypted")
		require.NotContains(t, d.explain(err).Error(), hint, "it has answered on this connection")
	}
	require.NotContains(t, d.explain(unacceptedError{os.ErrDeadlineExceeded, true}).Error(), hint, "it is silent")
	require.NotContains(t, d.explain(unacceptedError{redis.Error("LOADING"), true}).Error(), hint, "it answers")
	d.noteAnswered()
	require.NotContains(t, d.explain(unacceptedError{io.EOF, true}).Error(), hint, "it has answered before")
}
