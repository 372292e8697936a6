package conform_test

import (
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/locktest"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/relocktest/conform"
)

// Locks of a client of several servers keep the promises of all, fair and
// unfair.
func TestConformanceOverTwoServers(t *testing.T) {
	for name, opts := range map[string][]relock.LockOption{"unfair": nil, "fair": {relock.WithFair()}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := locktest.NewTopology(false, redistest.Start(t), redistest.Start(t))
			do := func(t *testing.T, key, command, name string) int {
				n, err := redis.Int(p.Of(key).Do(t, command, name), nil)
				require.NoError(t, err)
				return n
			}
			conform.Run(t, conform.Backend{
				New: func(t *testing.T) relock.Locker {
					l, err := relock.NewLocker(p.Client(t), append([]relock.LockOption{relock.WithWatchdog(testLease)}, opts...)...)
					require.NoError(t, err)
					return l
				},
				Lease: testLease, Fair: name == "fair",
				Break:   func(t *testing.T, key string) { do(t, key, "DEL", p.Key(key)) },
				Waiting: func(t *testing.T, key string) int { return do(t, key, "ZCARD", p.Key(key)+":q") },
				Left: func(t *testing.T, key string) (left []string) {
					for _, name := range []string{p.Key(key), p.Key(key) + ":q"} {
						if do(t, key, "EXISTS", name) == 1 {
							left = append(left, name)
						}
					}
					return left
				},
			})
		})
	}
}
