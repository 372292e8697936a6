package sentinel

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

// However many messages name another master, a client looks at most 20 times a
// second, and its looks end.
func TestStormOfMessages(t *testing.T) {
	t.Parallel()
	const distance, storm = 50 * time.Millisecond, 2 * time.Second
	s := redistest.StartSentinels(t, redistest.NoFailover)
	distances := map[string]time.Duration{"near": 0, "far": distance, "looks take over a second": 20 * distance}
	for name, between := range distances {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var dials atomic.Int64
			p := sentinelOf(t, s, func(c *Config) {
				c.Servers.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
					dials.Add(1)
					select {
					case <-time.After(between):
					case <-ctx.Done():
						return nil, ctx.Err()
					}
					return new(net.Dialer).DialContext(ctx, network, address)
				}
			})
			requireMaster(t, p, s.Servers[0])
			looks := testkit.Async(t, func() error {
				for start := time.Now(); time.Since(start) < storm; {
					if err := p.Refresh(t.Context()); err != nil {
						return err
					}
				}
				return nil
			})
			before, start, over := dials.Load(), time.Now(), false
			for !over {
				p.message(redistest.SentinelName + " 127.0.0.1 1 127.0.0.1 2")
				select {
				case err := <-looks:
					require.NoError(t, err)
					over = true
				case <-time.After(time.Millisecond):
					require.Less(t, time.Since(start), testkit.Patience, "looks do not end")
				}
			}
			most := 20*time.Since(start).Seconds() + 10 // the subscription, too
			t.Logf("%d connections in %v", dials.Load()-before, time.Since(start))
			require.LessOrEqual(t, float64(dials.Load()-before), most)
		})
	}
}
