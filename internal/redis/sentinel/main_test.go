package sentinel

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/relock-go/relock/internal/redis/driver"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

func TestMain(m *testing.M) {
	redistest.Overlap()
	goleak.VerifyTestMain(m)
}

// sentinelOf returns the topology of a set, closed when the test ends. change
// changes its configuration. Its first look has the time of a busy machine.
func sentinelOf(t testing.TB, s *redistest.Sentinels, change ...func(*Config)) *Sentinel {
	p := quickSentinelOf(t, s, change...)
	p.limit = redistest.NoFailover // the answer shortens it
	return p
}

// quickSentinelOf is sentinelOf with the limit that a new topology has.
func quickSentinelOf(t testing.TB, s *redistest.Sentinels, change ...func(*Config)) *Sentinel {
	return open(t, append([]func(*Config){func(c *Config) {
		c.Addresses, c.LoginBy = s.Addresses(), "WithSentinelLogin"
	}}, change...)...)
}

// open returns a topology, closed when the test ends.
func open(t testing.TB, change ...func(*Config)) *Sentinel {
	c := Config{Name: redistest.SentinelName, Password: new(string), Servers: &driver.Config{
		Password: new(string), DialTimeout: 5 * time.Second, CommandTimeout: 3 * time.Second,
	}}
	for _, f := range change {
		f(&c)
	}
	p := New(c)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	return p
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
	s.Mu.Lock()
	defer s.Mu.Unlock()
	return append([]string{}, s.sentinels...)
}

func (s *Sentinel) lastError() error {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	return s.Err
}
