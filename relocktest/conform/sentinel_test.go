package conform_test

import (
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/redistest"
)

// Every kind of lock keeps the promises of all at a master that sentinels name,
// also behind a proxy that loses, delays and doubles messages. Only the way to
// the server differs, so some modes are enough.
func TestConformanceOverSentinel(t *testing.T) {
	t.Parallel()
	set := redistest.StartSentinels(t, 20*time.Second) // a machine that stalls is no failover
	for name, k := range locktest.ConformKinds() {
		for _, mode := range k.Few {
			t.Run(name+"/"+mode, func(t *testing.T) {
				t.Parallel()
				s := locktest.ConformServers{Prefix: locktest.NewConformPrefix()}.At(set.Servers[0])
				s.Client = func(t *testing.T, opts ...relock.ClientOption) *relock.Client {
					return locktest.SentinelClient(t, set, append(opts, relock.WithKeyPrefix(s.Prefix))...)
				}
				s.Behind = s.Mapped
				k.Run(t, s, mode)
			})
		}
	}
}
