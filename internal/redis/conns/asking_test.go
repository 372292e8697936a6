package conns

import (
	"context"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/redis/driver"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

// ASKING is for the next command of its connection only. So both are written
// together, and both are answered before the connection is used again.
func TestAskingIsWrittenWithItsCommand(t *testing.T) {
	t.Parallel()
	type answered struct {
		text  string
		reply any
		err   string
	}
	const ok = "+OK\r\n"
	testkit.Each(t, map[string]answered{
		"answered":         {ok + ok, "OK", ""},
		"held":             {ok + "$-1\r\n", nil, ""},
		"moved back":       {ok + "-MOVED 1 h:1\r\n", nil, "MOVED 1 h:1"},
		"not permitted":    {"-NOPERM no permission to run the 'asking' command\r\n" + ok, nil, "NOPERM"},
		"an answer lacks":  {ok, nil, "i/o timeout"},
		"a doubled answer": {ok + ok + ok, nil, "without a request"},
	}, func(t *testing.T, _ string, tt answered) {
		var connections atomic.Int64
		writes := make(chan string, 2)
		s := redistest.Serve(t, redistest.Listen(t), func(conn net.Conn) {
			connections.Add(1)
			buffer := make([]byte, 4096)
			for n, err := conn.Read(buffer); err == nil; n, err = conn.Read(buffer) {
				writes <- string(buffer[:n])
				_, _ = conn.Write([]byte(tt.text))
			}
		})
		d := newTestPool(t, s, withCommandTimeout(200*time.Millisecond))
		for range 2 {
			o := d.CallAsking(t.Context(), driver.Limits{}, driver.SetNX("k", "v", time.Second))
			if tt.err != "" {
				require.ErrorContains(t, o.Err, tt.err)
			} else {
				require.NoError(t, o.Err)
				require.Equal(t, tt.reply, o.Reply)
			}
			written := <-writes
			require.True(t, strings.HasPrefix(written, "*1\r\n$6\r\nASKING\r\n*6\r\n$3\r\nSET\r\n"), "%q", written)
		}
		if len(tt.err) == 0 {
			require.EqualValues(t, 1, connections.Load(), "it is used again")
		}
	})
}

// After its end, the pool asks nothing.
func TestAskingOfAClosedPool(t *testing.T) {
	t.Parallel()
	d := newTestPool(t, redistest.ServeText(t, "", 1))
	require.NoError(t, d.Close())
	require.ErrorIs(t, d.CallAsking(t.Context(), driver.Limits{}, driver.SetNX("k", "v", time.Second)).Err, errs.ErrClosed)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, d.CallAsking(ctx, driver.Limits{}, driver.SetNX("k", "v", time.Second)).Err, driver.ErrAbandoned)
}
