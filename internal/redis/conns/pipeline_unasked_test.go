package conns

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/redis/driver"
	"github.com/relock-go/relock/internal/redis/wire"
	"github.com/relock-go/relock/internal/test/redistest"
)

// What a server says to a connection that it does not take is the error of all
// calls.
func TestRefusedSharedConnection(t *testing.T) {
	t.Parallel()
	for text, retryable := range map[string]bool{
		"DENIED Redis is running in protected mode":               false,
		"ERR max number of clients reached":                       true,
		"ERR max number of clients + cluster connections reached": true,
	} {
		d := newTestPool(t, redistest.ServeText(t, "-"+text+"\r\n", 0))
		d.apart = 0
		Together(8, func(int) {
			o := d.Send(t.Context(), driver.Limits{}, echo("x"))
			if o.Err == nil || driver.IsTransient(o.Err) != retryable {
				t.Errorf("error %v", o.Err)
			}
		})
	}
}

// An answer that nobody asked for ends the connection, and is nobody's.
func TestAnswerThatNobodyAskedFor(t *testing.T) {
	t.Parallel()
	d := newTestPool(t, redistest.ServeText(t, "$1\r\nx\r\n+more\r\n", 1))
	d.apart = 0
	o := d.Send(t.Context(), driver.Limits{}, echo("x"))
	require.True(t, o.Err == nil || errors.Is(o.Err, wire.ErrUnasked), "%v", o.Err) // as one, or one after the other
	stream := d.shared.stream.Load()
	<-stream.done
	require.ErrorIs(t, stream.cause, wire.ErrUnasked)
}
