package sentinel

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

// Sentinels are asked in order, 300 ms each. The first that answers goes to the
// front. It names the others.
func TestSentinelsAreAskedInOrder(t *testing.T) {
	t.Parallel()
	s := redistest.StartSentinels(t, redistest.NoFailover)
	s.Sentinels[0].Pause(t)
	down := "127.0.0.1:" + redistest.FreePort(t)
	p := quickSentinelOf(t, s, func(c *Config) {
		c.Addresses = []string{s.Sentinels[0].Address, down, s.Sentinels[1].Address}
	})
	start, watch := time.Now(), testkit.NewStopwatch(t)
	requireMaster(t, p, s.Servers[0])
	watch.Within(2 * firstLimit)
	require.GreaterOrEqual(t, time.Since(start), firstLimit)
	require.Eventually(t, func() bool { return len(p.order()) == 4 }, redistest.NoFailover, time.Millisecond)
	require.Equal(t, s.Sentinels[1].Address, p.order()[0])
	require.ElementsMatch(t, append(s.Addresses(), down), p.order())
	watch = testkit.NewStopwatch(t)
	requireMaster(t, p, s.Servers[0])
	watch.Within(firstLimit, "from memory")
}

// However often looks are wanted, there are at most 20 a second.
func TestLooksAreLimited(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		s := New(Config{Addresses: []string{"10.0.0.1:1"}})
		for _, found := range []bool{true, false} {
			for range 100 {
				s.Soon <- struct{}{}
				start := time.Now()
				require.True(t, s.pause(found, minInterval))
				require.GreaterOrEqual(t, time.Since(start), time.Second/20)
				require.LessOrEqual(t, time.Since(start), minInterval)
				select {
				case <-s.Soon: // kept while no master is found
				default:
				}
			}
		}
		require.NoError(t, s.Close())
	})
}

// A client that was given one sentinel follows a failover without it.
func TestSentinelsAreLearnt(t *testing.T) {
	t.Parallel()
	s := redistest.StartSentinels(t, time.Second)
	p := sentinelOf(t, s, func(c *Config) { c.Addresses = c.Addresses[2:] })
	requireMaster(t, p, s.Servers[0])
	require.Eventually(t, func() bool { return len(p.order()) == 3 }, redistest.NoFailover, time.Millisecond)
	awaitListeners(t, s.Sentinels[2], 1)
	s.Sentinels[2].Pause(t)
	s.Servers[0].Kill(t)
	require.Eventually(t, func() bool { return s.Master(t, s.Sentinels[0]) != s.Servers[0] },
		redistest.NoFailover, time.Millisecond)
	p.Invalidate(s.Servers[0].Address)
	requireSwitch(t, p, s.Master(t, s.Sentinels[0]), 3*time.Second) // a poll comes later
	require.NotEqual(t, s.Sentinels[2].Address, p.order()[0])
}

// A message names a new master long before the next poll, though no call has
// failed.
func TestSwitchIsNoticedByItsMessage(t *testing.T) {
	t.Parallel()
	s := redistest.StartSentinels(t, redistest.NoFailover)
	p := sentinelOf(t, s)
	requireMaster(t, p, s.Servers[0])
	awaitListeners(t, s.Sentinels[0], 1)
	s.Sentinels[1].Do(t, "SENTINEL", "FAILOVER", redistest.SentinelName)
	next := s.AwaitSuccessor(t, s.Servers[0])
	requireSwitch(t, p, next, time.Second)
	select {
	case <-p.Changes:
	default:
		t.Fatal("the client is not notified")
	}
}

// A sentinel that names a replica is not trusted: the next one is asked.
func TestSentinelThatIsBehind(t *testing.T) {
	t.Parallel()
	s := redistest.StartSentinels(t, redistest.NoFailover)
	s.Sentinels[0].Do(t, "SENTINEL", "REMOVE", redistest.SentinelName)
	p := sentinelOf(t, s)
	requireMaster(t, p, s.Servers[0]) // it knows no master
	require.NoError(t, p.Close())
	host, port := "127.0.0.1", s.Servers[1].Address[len("127.0.0.1:"):]
	s.Sentinels[0].Do(t, "SENTINEL", "MONITOR", redistest.SentinelName, host, port, 3)
	require.Equal(t, s.Servers[1], s.Master(t, s.Sentinels[0]))
	p = sentinelOf(t, s)
	requireMaster(t, p, s.Servers[0])
	require.Equal(t, s.Sentinels[1].Address, p.order()[0])
	alone := sentinelOf(t, s, func(c *Config) { c.Addresses = c.Addresses[:1] })
	_, err := alone.Master(t.Context())
	require.ErrorContains(t, err, s.Servers[1].Address+` is no master: its role is "slave"`)
	require.True(t, lockspec.IsRetryable(err), err)
}

// Without sentinels the first call fails, with the reason of each, and may be
// tried again. A master that is known stays.
func TestSentinelsAreDown(t *testing.T) {
	t.Parallel()
	s := redistest.StartSentinels(t, redistest.NoFailover)
	known := sentinelOf(t, s)
	requireMaster(t, known, s.Servers[0])
	s.Sentinels[0].Kill(t)
	s.Sentinels[1].Kill(t)
	s.Sentinels[2].Pause(t)
	known.Invalidate(s.Servers[0].Address)
	p := quickSentinelOf(t, s)
	_, err := p.Master(t.Context())
	require.True(t, lockspec.IsRetryable(err), err)
	require.ErrorContains(t, err, `no master "orders": sentinel `+s.Sentinels[0].Address)
	require.ErrorContains(t, err, "connection refused; sentinel "+s.Sentinels[1].Address)
	require.ErrorContains(t, err, s.Sentinels[2].Address+": read")
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	_, again := p.Master(ctx)
	require.EqualError(t, again, err.Error(), "the reason that is known")
	require.Eventually(t, func() bool { return known.lastError() != nil }, redistest.NoFailover, time.Millisecond)
	requireMaster(t, known, s.Servers[0])
	s.Sentinels[1].Boot(t)
	require.Eventually(t, func() bool { address, _ := p.Master(t.Context()); return address == s.Servers[0].Address },
		redistest.NoFailover, time.Millisecond)
}

// A name that no sentinel knows is a mistake, and so is a server that is no
// sentinel.
func TestNoSuchMaster(t *testing.T) {
	t.Parallel()
	s := redistest.StartSentinels(t, redistest.NoFailover)
	p := sentinelOf(t, s, func(c *Config) { c.Name = "invoices" })
	_, err := p.Master(t.Context())
	require.ErrorIs(t, err, errs.ErrInvalid)
	require.ErrorContains(t, err, `knows no master "invoices"; see NewClientSentinel`)
	p = sentinelOf(t, s, func(c *Config) { c.Addresses = []string{s.Servers[0].Address} })
	_, err = p.Master(t.Context())
	require.ErrorIs(t, err, errs.ErrInvalid)
	require.False(t, lockspec.IsRetryable(err), err)
}

// The limit for a sentinel grows while all are late, and shrinks again.
func TestLimitFollowsTheNetwork(t *testing.T) {
	t.Parallel()
	s := redistest.StartSentinels(t, redistest.NoFailover)
	p := quickSentinelOf(t, s)
	all := []*redistest.Server{s.Sentinels[0], s.Sentinels[1], s.Sentinels[2]}
	for _, one := range all {
		one.Pause(t)
	}
	limit := func() time.Duration {
		p.Mu.Lock()
		defer p.Mu.Unlock()
		return p.limit
	}
	_, err := p.Master(t.Context())
	require.Error(t, err)
	require.GreaterOrEqual(t, limit(), 2*firstLimit)
	for _, one := range all {
		one.Resume(t)
	}
	require.Eventually(t, func() bool { _, err := p.Master(t.Context()); return err == nil && limit() == firstLimit },
		redistest.NoFailover, time.Millisecond)
}

// A function that maps addresses may be wrong.
func TestAddressMapThatFails(t *testing.T) {
	t.Parallel()
	s := redistest.StartSentinels(t, redistest.NoFailover)
	for text, f := range map[string]func(string) string{
		"WithAddressMap panicked: oops":             func(string) string { panic("oops") },
		"WithAddressMap: returned an empty address": func(string) string { return "" },
	} {
		p := sentinelOf(t, s, func(c *Config) { c.Map = f })
		_, err := p.Master(t.Context())
		require.ErrorContains(t, err, text)
		require.ErrorIs(t, err, errs.ErrInvalid)
	}
}

// Whatever a sentinel answers, nothing panics, and no address is empty.
func FuzzAnswersOfSentinels(f *testing.F) {
	f.Add("10.0.0.1", "6379", "ip", int64(1))
	f.Add("", "0", "port", int64(0))
	p := New(Config{Name: "m"})
	f.Fuzz(func(t *testing.T, a, b, c string, n int64) {
		for _, reply := range []any{
			nil, n, []byte(a), []any{[]byte(a), []byte(b)}, []any{[]byte(a), n, nil}, []any{nil, []byte(b)}, []any{},
		} {
			if address, err := p.addressIn(reply); err == nil {
				require.NotEmpty(t, address)
			}
		}
		for _, reply := range []any{nil, n, []any{
			nil, n,
		}, []any{[]any{[]byte(c), []byte(a), []byte("port"), []byte(b)}}, []any{[]any{[]byte(a)}}, []any{[]any{n, nil}}} {
			for _, address := range p.othersIn(reply) {
				require.NotEmpty(t, address)
			}
		}
	})
}
