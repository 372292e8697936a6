package sentinel

import (
	"crypto/tls"
	"crypto/x509"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/test/redistest"
)

// awaitListeners waits until a sentinel has so many subscriptions.
func awaitListeners(t testing.TB, sentinel *redistest.Server, n int) {
	t.Helper()
	require.Eventually(t, func() bool { return listeners(t, sentinel) == n }, redistest.NoFailover, time.Millisecond)
}

// listeners counts the subscriptions at a sentinel, of clients.
func listeners(t testing.TB, sentinel *redistest.Server) int {
	t.Helper()
	text, err := redis.String(sentinel.Do(t, "CLIENT", "LIST"), nil)
	require.NoError(t, err)
	return strings.Count(text, " sub=1 ")
}

// asUser is a configuration with a log-in to sentinels.
func asUser(user, password string) func(*Config) {
	return func(c *Config) { c.Username, c.Password = user, &password }
}

// The log-in of sentinels is not that of servers.
func TestSentinelLogin(t *testing.T) {
	t.Parallel()
	s := redistest.StartSentinels(t, redistest.NoFailover)
	for _, one := range s.Sentinels {
		one.Do(t, "ACL", "SETUSER", "watch", "on", ">secret", "allchannels", "+@all")
		one.Do(t, "ACL", "SETUSER", "default", "resetpass", ">another")
	}
	password := "secret"
	for _, user := range []func(*Config){asUser("", ""), asUser("watch", "wrong"), asUser("nobody", "secret")} {
		p := sentinelOf(t, s, user, func(c *Config) { c.Servers.Username, c.Servers.Password = "watch", &password })
		_, err := p.Master(t.Context())
		require.ErrorIs(t, err, errs.ErrDenied)
		require.ErrorContains(t, err, "see WithSentinelLogin")
		require.NotContains(t, err.Error(), "secret")
	}
	for _, user := range []func(*Config){asUser("watch", "secret"), asUser("", "another")} {
		requireMaster(t, sentinelOf(t, s, user, func(c *Config) { c.Servers.Database = 3 }), s.Servers[0])
	}
}

// aclLine finds the commands that create users in docs/sentinel.md.
var aclLine = regexp.MustCompile(`(?m)^ACL SETUSER (\w+) (.*)$`)

// rulesOf returns the rules of a user in the documentation.
func rulesOf(t testing.TB, user string) []string {
	t.Helper()
	text, err := os.ReadFile("../../../docs/sentinel.md")
	require.NoError(t, err)
	for _, found := range aclLine.FindAllStringSubmatch(string(text), -1) {
		if found[1] == user {
			return strings.Fields(found[2])
		}
	}
	require.FailNow(t, "the documentation has no such user", user)
	return nil
}

// What the documentation allows a sentinel's user is enough, and each rule is
// needed for what the documentation says.
func TestSentinelPermissions(t *testing.T) {
	t.Parallel()
	rules := rulesOf(t, "watch")
	for _, tt := range []struct {
		without                 string
		denied, learns, listens bool
	}{
		{"", false, true, true},
		{"+sentinel|get-master-addr-by-name", true, false, false},
		{"+sentinel|sentinels", false, false, true},
		{"+sentinel|master", false, true, true},
		{"+subscribe", false, true, false},
		{"&+switch-master", false, true, false},
	} {
		t.Run("without "+tt.without, func(t *testing.T) {
			t.Parallel()
			left := slices.DeleteFunc(slices.Clone(rules), func(rule string) bool { return rule == tt.without })
			require.Equal(t, tt.without == "", len(left) == len(rules))
			s := redistest.StartSentinels(t, redistest.NoFailover)
			for _, one := range s.Sentinels {
				one.Do(t, "ACL", redis.Args{"SETUSER", "watch"}.AddFlat(left)...)
			}
			p := sentinelOf(t, s, asUser("watch", "password"), func(c *Config) { c.Addresses = c.Addresses[:1] })
			if tt.denied {
				_, err := p.Master(t.Context())
				require.ErrorIs(t, err, errs.ErrDenied)
				require.ErrorContains(t, err, "see WithSentinelLogin")
				return
			}
			requireMaster(t, p, s.Servers[0])
			if tt.listens {
				awaitListeners(t, s.Sentinels[0], 1)
			} else {
				require.Never(t, func() bool { return listeners(t, s.Sentinels[0]) > 0 }, 300*time.Millisecond, 10*time.Millisecond)
			}
			if tt.learns {
				require.Eventually(t, func() bool { return len(p.order()) == 3 }, redistest.NoFailover, time.Millisecond)
			} else {
				require.Len(t, p.order(), 1)
			}
			s.Sentinels[0].Do(t, "SENTINEL", "FAILOVER", redistest.SentinelName)
			next := s.AwaitSuccessor(t, s.Servers[0])
			requireSwitch(t, p, next, pollInterval+time.Second) // by a message or by a poll
		})
	}
}

// The user at the servers needs no permission for ROLE: without it the check is
// left out.
func TestRoleIsNotPermitted(t *testing.T) {
	t.Parallel()
	s := redistest.StartSentinels(t, redistest.NoFailover)
	s.Sentinels[0].Do(t, "SENTINEL", "REMOVE", redistest.SentinelName)
	s.Sentinels[0].Do(t, "SENTINEL", "MONITOR", redistest.SentinelName, "127.0.0.1",
		s.Servers[1].Address[len("127.0.0.1:"):], 3)
	for _, one := range s.Servers {
		one.Do(t, "ACL", "SETUSER", "app", "on", ">password", "-@all")
		one.Do(t, "ACL", "SETUSER", "checks", "on", ">password", "-@all", "+role")
	}
	as := func(user string) func(*Config) {
		password := "password"
		return func(c *Config) { c.Servers.Username, c.Servers.Password = user, &password }
	}
	requireMaster(t, sentinelOf(t, s, as("checks")), s.Servers[0])
	requireMaster(t, sentinelOf(t, s, as("app")), s.Servers[1]) // which is a replica
}

// Connections to sentinels and to servers are encrypted.
func TestSentinelsOverTLS(t *testing.T) {
	t.Parallel()
	s := redistest.StartSentinels(t, redistest.NoFailover)
	web := httptest.NewTLSServer(nil) // for its certificate of 127.0.0.1
	defer web.Close()
	trusted := x509.NewCertPool()
	trusted.AddCert(web.Certificate())
	encrypted := map[string]string{}
	for _, one := range append(slices.Clone(s.Sentinels), s.Servers...) {
		encrypted[one.Address] = one.Encrypt(t, web.TLS.Certificates)
	}
	config := func(c *Config) {
		c.Servers.UseTLS, c.Servers.TLS = true, &tls.Config{RootCAs: trusted, MinVersion: tls.VersionTLS12}
		c.Map = func(address string) string { return encrypted[address] }
		c.Addresses = []string{encrypted[s.Sentinels[0].Address]}
	}
	p := sentinelOf(t, s, config)
	require.Eventually(t, func() bool { _, err := p.Master(t.Context()); return err == nil },
		redistest.NoFailover, time.Millisecond)
	address, err := p.Master(t.Context())
	require.NoError(t, err)
	require.Equal(t, encrypted[s.Servers[0].Address], address)
	require.Eventually(t, func() bool { return len(p.order()) == 3 }, redistest.NoFailover, time.Millisecond)
	p = sentinelOf(t, s, config, func(c *Config) { c.Servers.TLS = nil })
	require.Eventually(t, func() bool { // the first handshakes may be late
		_, err := p.Master(t.Context())
		return err != nil && strings.Contains(err.Error(), "certificate")
	}, redistest.NoFailover, time.Millisecond)
	p = quickSentinelOf(t, s, config, func(c *Config) { c.Servers.UseTLS = false })
	_, err = p.Master(t.Context())
	require.Error(t, err)
}
