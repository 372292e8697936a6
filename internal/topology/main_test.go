package topology

import (
	"context"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

func TestMain(m *testing.M) {
	redistest.Overlap()
	goleak.VerifyTestMain(m)
}

// noFailover is how long a machine may stall without a failover.
const noFailover = 20 * time.Second

// sentinelOf returns the topology of a set, closed when the test ends. change
// changes its configuration. Its first look has the time of a busy machine.
func sentinelOf(t testing.TB, s *redistest.Sentinels, change ...func(*SentinelConfig)) *Sentinel {
	p := quickSentinelOf(t, s, change...)
	p.limit = noFailover // the answer shortens it
	return p
}

// quickSentinelOf is sentinelOf with the limit that a new topology has.
func quickSentinelOf(t testing.TB, s *redistest.Sentinels, change ...func(*SentinelConfig)) *Sentinel {
	return changed(t, NewSentinel, SentinelConfig{
		Name: redistest.SentinelName, Addresses: s.Addresses(), Password: new(string), LoginBy: "WithSentinelLogin", Servers: connections(),
	}, change)
}

// changed returns a topology with a changed configuration, closed when the test
// ends.
func changed[C any, T io.Closer](t testing.TB, of func(C) T, c C, changes []func(*C)) T {
	for _, f := range changes {
		f(&c)
	}
	p := of(c)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	return p
}

func connections() *driver.Config {
	return &driver.Config{Password: new(string), DialTimeout: 5 * time.Second, CommandTimeout: 3 * time.Second}
}

// requireMaster requires that the topology names the server.
func requireMaster(t testing.TB, p *Sentinel, s *redistest.Server) {
	t.Helper()
	address, err := p.Master(t.Context())
	require.NoError(t, err)
	require.Equal(t, s.Address, address)
}

// requireSwitch requires that the topology names the server within a time.
func requireSwitch(t testing.TB, p *Sentinel, s *redistest.Server, promise time.Duration) {
	t.Helper()
	watch := testkit.NewStopwatch(t)
	testkit.Eventually(t, testkit.Patience, func() bool {
		address, _ := p.Master(context.Background())
		return address == s.Address
	}, "it names the new master")
	watch.Within(promise)
}

func (s *Sentinel) order() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string{}, s.sentinels...)
}

func (s *Sentinel) lastError() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}
