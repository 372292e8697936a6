package driver

import (
	"os"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/testkit"
)

// patientConn is a connection of the user's that ignores the limit of a read.
type patientConn struct{ redis.ConnWithTimeout }

func (c patientConn) ReceiveWithTimeout(time.Duration) (any, error) { return c.Receive() }

// A batch ends in time over a connection that ignores limits. The link closes
// it then: the answer is late, and the server has broken nothing.
func TestLateAnswerIsNoBreak(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	proxy := faults.Start(t, s.Network, s.Address)
	pool := &redis.Pool{Dial: func() (redis.Conn, error) {
		conn, err := redis.Dial(proxy.Network, proxy.Address)
		if err != nil {
			return nil, err
		}
		return patientConn{conn.(redis.ConnWithTimeout)}, nil
	}}
	d := FromPool(&Config{DialTimeout: testDialTimeout, CommandTimeout: testCommandTimeout}, pool)
	defer func() { require.NoError(t, d.Close()) }()
	l := linkOf(t, d)
	limit := BatchLimit{Own: 200 * time.Millisecond, Borrowed: testkit.Patience}
	requireAnswered(t, l.Pipeline(limit, []Request{echo("x")}))
	proxy.On(faults.Command("ECHO"), 1, faults.DropAnswer)
	late := l.Pipeline(limit, []Request{echo("x")})[0]
	require.ErrorIs(t, late.Err, os.ErrDeadlineExceeded)
	require.True(t, late.Unanswered())
	require.False(t, late.Broke())
}
