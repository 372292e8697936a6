package cluster

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/redis/driver"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

// clusterOf returns the topology of the Cluster of these servers, closed when
// the test ends. change changes its configuration.
func clusterOf(t testing.TB, addresses []string, change ...func(*Config)) *Cluster {
	c := Config{Addresses: addresses, Servers: connections()}
	for _, f := range change {
		f(&c)
	}
	p := New(c)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	return p
}

// connections returns the settings of connections to the servers.
func connections() *driver.Config {
	return &driver.Config{Password: new(string), DialTimeout: 5 * time.Second, CommandTimeout: 3 * time.Second}
}

// requireFound requires that the topology names the masters of a Cluster, and
// that of some keys.
func requireFound(t testing.TB, p *Cluster, s *redistest.Cluster) {
	t.Helper()
	masters, err := p.Masters(t.Context())
	require.NoError(t, err)
	var want []string
	for _, one := range s.Masters(t) {
		want = append(want, one.Address)
	}
	require.ElementsMatch(t, want, masters)
	for i := range 20 {
		key := fmt.Sprint("k", i)
		address, err := p.Master(t.Context(), key)
		require.NoError(t, err)
		require.Equal(t, s.MasterOf(t, key).Address, address)
	}
	address, err := p.Master(t.Context(), "")
	require.NoError(t, err)
	require.Contains(t, want, address)
}

// byUser has a topology log in as a user with the password "secret".
func byUser(name string) func(*Config) {
	password := "secret"
	return func(c *Config) { c.Servers.Username, c.Servers.Password = name, &password }
}

// One server that answers is enough, a replica too, however many others fail.
func TestClusterIsFound(t *testing.T) {
	t.Parallel()
	s := redistest.StartCluster(t, 3, 1)
	all := s.Addresses()
	s.DoAll(t, "ACL", "SETUSER", "app", "on", ">secret", "-@all", "+cluster|shards")
	s.DoAll(t, "ACL", "SETUSER", "old", "on", ">secret", "-@all", "+cluster|slots")
	s.DoAll(t, "ACL", "SETUSER", "none", "on", ">secret", "-@all", "+@read")

	t.Run("by a replica", func(t *testing.T) {
		t.Parallel()
		p := clusterOf(t, all[5:])
		requireFound(t, p, s)
		require.ElementsMatch(t, all, p.known())
		requireFound(t, clusterOf(t, all[5:], byUser("app")), s)
	})
	t.Run("by CLUSTER SLOTS", func(t *testing.T) {
		t.Parallel()
		p := clusterOf(t, all[5:], byUser("old"))
		requireFound(t, p, s)
		require.ElementsMatch(t, all, p.known())
	})
	t.Run("beside servers that fail", func(t *testing.T) {
		t.Parallel()
		hung := redistest.StartTCP(t)
		hung.Pause(t)
		down := "127.0.0.1:" + redistest.FreePort(t)
		p := clusterOf(t, []string{down, hung.Address, redistest.StartTCP(t).Address, all[0]})
		watch := testkit.NewStopwatch(t)
		_, err := p.Masters(t.Context())
		watch.Within(firstLimit, "the next one is asked beside one that hangs")
		require.NoError(t, err)
		requireFound(t, p, s)
	})
	t.Run("not without permission", func(t *testing.T) {
		t.Parallel()
		_, err := clusterOf(t, all[:2], byUser("none")).Masters(t.Context())
		require.ErrorIs(t, err, errs.ErrDenied)
		require.ErrorContains(t, err, "+cluster|shards or +cluster|slots")
		_, err = clusterOf(t, all[:2], byUser("nobody")).Masters(t.Context())
		require.ErrorIs(t, err, errs.ErrDenied)
		require.NotContains(t, err.Error(), "+cluster|shards")
		require.NotContains(t, err.Error(), "secret")
	})
	t.Run("by other addresses", func(t *testing.T) {
		t.Parallel()
		outside := func(address string) string { return strings.Replace(address, "127.0.0.1:", "localhost:", 1) }
		p := clusterOf(t, []string{outside(all[0])}, func(c *Config) { c.Map = outside })
		masters, err := p.Masters(t.Context())
		require.NoError(t, err)
		require.Len(t, masters, 3)
		for _, address := range append(masters, p.known()...) {
			require.Contains(t, address, "localhost:")
		}
		require.Equal(t, "localhost:7", p.Redirect("k", masters[0], "127.0.0.1:7", true))
	})
}

func (c *Cluster) known() []string {
	c.Mu.Lock()
	defer c.Mu.Unlock()
	return append([]string{}, c.nodes...)
}

// A slot is that which servers compute.
func TestSlotOfKey(t *testing.T) {
	t.Parallel()
	s := redistest.StartTCP(t, "--cluster-enabled", "yes")
	require.Equal(t, 0x31C3, slotOf("123456789"), "the value that the specification has")
	for _, key := range []string{
		"", "k", "relock:{orders/42}:q", "{a}{b}", "{}x", "x{}{y}", "{", "}{", "a{b", "a{{b}}c", "\xff\x00{\x80}",
	} {
		slot, err := redis.Int(s.Do(t, "CLUSTER", "KEYSLOT", key), nil)
		require.NoError(t, err)
		require.Equal(t, slot, slotOf(key), "%q", key)
	}
}

// A slot without a master is an error that may pass. A server that is no
// Cluster is a mistake, and so is one that nothing is known of.
func TestClusterWithoutSlots(t *testing.T) {
	t.Parallel()
	s := redistest.StartTCP(t, "--cluster-enabled", "yes")
	p := clusterOf(t, []string{s.Address})
	_, err := p.Master(t.Context(), "k")
	require.ErrorContains(t, err, "no slots of the Cluster: server "+s.Address+": it knows no master")
	require.True(t, lockspec.IsRetryable(err), err)
	first := slotOf("k")
	s.Do(t, "CLUSTER", "ADDSLOTS", first)
	require.Eventually(t, func() bool {
		address, err := p.Master(t.Context(), "k")
		return err == nil && address == s.Address
	}, redistest.NoFailover, time.Millisecond)
	_, err = p.Master(t.Context(), "other")
	require.EqualError(t, err, fmt.Sprintf("CLUSTERDOWN: slot %d has no master that is online", slotOf("other")))
	require.True(t, lockspec.IsRetryable(err), err)
	s.Do(t, "CLUSTER", "ADDSLOTS", slotOf("other"))
	require.Eventually(t, func() bool {
		address, err := p.Master(t.Context(), "other")
		return err == nil && address == s.Address
	}, redistest.NoFailover, time.Millisecond, "that error causes a load")

	_, err = clusterOf(t, []string{redistest.StartTCP(t).Address}).Master(t.Context(), "k")
	require.ErrorIs(t, err, errs.ErrInvalid)
	require.ErrorContains(t, err, "it is no Cluster; use NewClient")
	renamed := redistest.StartTCP(t, "--cluster-enabled", "yes", "--rename-command", "CLUSTER", "")
	_, err = clusterOf(t, []string{renamed.Address}).Master(t.Context(), "k")
	require.ErrorIs(t, err, errs.ErrInvalid)
	require.ErrorContains(t, err, "unknown command")
}

// A function that maps addresses may be wrong.
func TestAddressMapOfAClusterThatFails(t *testing.T) {
	t.Parallel()
	s := redistest.StartCluster(t, 1, 0)
	for text, f := range map[string]func(string) string{
		"WithAddressMap panicked: oops":             func(string) string { panic("oops") },
		"WithAddressMap: returned an empty address": func(string) string { return "" },
	} {
		p := clusterOf(t, s.Addresses(), func(c *Config) { c.Map = f })
		_, err := p.Masters(t.Context())
		require.ErrorContains(t, err, text)
		require.ErrorIs(t, err, errs.ErrInvalid)
		require.Empty(t, p.Redirect("k", s.Servers[0].Address, "127.0.0.1:7", false))
	}
}

// loads counts the requests for the slots at servers.
func loads(t testing.TB, servers ...*redistest.Server) (n int) {
	t.Helper()
	for _, s := range servers {
		text, err := redis.String(s.Do(t, "INFO", "commandstats"), nil)
		require.NoError(t, err)
		n += redistest.CallsIn(t, text, "cluster|shards")
	}
	return n
}

// Close ends a load under way immediately, and one that would come.
func TestCloseOfACluster(t *testing.T) {
	t.Parallel()
	hung := redistest.StartTCP(t)
	hung.Pause(t)
	p := clusterOf(t, []string{hung.Address})
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err := p.Master(ctx, "k")
	require.ErrorIs(t, err, context.DeadlineExceeded)
	watch := testkit.NewStopwatch(t)
	require.NoError(t, p.Close())
	watch.Within(firstLimit / 10)
	p.Tasks.Wait() // or the goroutine would stay
}

// The addresses in redirects may lack the host, and IPv6 ones have no brackets.
func TestAddressesInRedirects(t *testing.T) {
	t.Parallel()
	p := clusterOf(t, []string{"h:1"})
	for to, want := range map[string]string{
		"10.0.0.1:6379": "10.0.0.1:6379", ":6380": "asked:6380", "?:6380": "asked:6380", "fe80::1:6379": "[fe80::1]:6379",
		"[fe80::1]:6379": "[fe80::1]:6379",
		"127.0.0.1:6379": "asked:6379", "::1:6379": "asked:6379",
		"a.example:6379": "a.example:6379", "": "", "h": "", "h:0": "", "h:x": "", "h:65536": "", ":": "",
	} {
		require.Equal(t, want, p.Redirect("k", "asked:6379", to, true), to)
	}
	require.Empty(t, p.Redirect("k", "/path", ":1", true))
	require.Equal(t, net.JoinHostPort("h", "1"), p.Redirect("", "/path", "h:1", false))
}
