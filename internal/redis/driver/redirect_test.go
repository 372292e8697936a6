package driver

import (
	"errors"
	"net"
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/errs"
)

func TestRedirectLines(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]Redirect{
		"MOVED 3999 127.0.0.1:6381":      {"127.0.0.1:6381", false},
		"ASK 0 127.0.0.1:6381":           {"127.0.0.1:6381", true},
		"MOVED 16383 :6381":              {":6381", false}, // at the host that was asked
		"MOVED 1 ?:6381":                 {":6381", false},
		"MOVED 1 redis-1.example.com:65": {"redis-1.example.com:65", false},
		"ASK 1 ::1:6381":                 {"[::1]:6381", true}, // Redis writes no brackets
		"ASK 1 [2001:db8::2]:6381":       {"[2001:db8::2]:6381", true},
	} {
		got, ok := RedirectIn(Sanitize(redis.Error(line)))
		require.True(t, ok, line)
		require.Equal(t, want, got, line)
	}
	for _, line := range []string{
		"", "MOVED", "ASK", "MOVED ", "MOVED 1", "MOVED 1 ", "MOVED 1 h", "MOVED 1 h:", "MOVED 1 h:0", "MOVED 1 h:65536",
		"MOVED 1 h:x",
		"MOVED 16384 h:1", "MOVED -1 h:1", "MOVED x h:1", "MOVED  1 h:1", "moved 1 h:1", "MOVED 1 /run/redis.sock:1",
		"MOVED 1 a b:1", "MOVED 1 h:1 x",
		"ASKING 1 h:1", "MOVEDX 1 h:1", "TRYAGAIN Multiple keys request during rehashing of slot", "ERR MOVED 1 h:1",
	} {
		_, ok := RedirectIn(redis.Error(line))
		require.False(t, ok, line)
	}
	for _, err := range []error{nil, net.ErrClosed} {
		_, ok := RedirectIn(err)
		require.False(t, ok, err)
	}
}

// A server without a name is at the host that has answered.
func TestAddressOfARedirect(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ to, from, want string }{
		{"a:1", "b:2", "a:1"},
		{":1", "b:2", "b:1"},
		{":1", "[::1]:2", "[::1]:1"},
		{":1", "/run/redis.sock", ""},
	} {
		require.Equal(t, tt.want, Redirect{To: tt.to}.From(tt.from), tt)
	}
}

// A client of one server says what it needs. A router names the last server.
func TestTextsOfRedirects(t *testing.T) {
	t.Parallel()
	moved := redis.Error("MOVED 3999 127.0.0.1:6381")
	err := Sanitize(moved)
	require.EqualError(t, err, "invalid: the server is part of a Cluster, use NewClientCluster: MOVED 3999 127.0.0.1:6381")
	require.ErrorIs(t, err, errs.ErrInvalid)
	require.False(t, IsTransient(err))
	require.True(t, IsUnexecuted(err))

	err = RedirectsError{moved}
	require.EqualError(t, err, "servers disagree about which one has the key: MOVED 3999 127.0.0.1:6381 after 5 redirects")
	require.NotErrorIs(t, err, errs.ErrInvalid)
	require.True(t, IsTransient(err))
	require.True(t, IsUnexecuted(err))
}

func TestUnexecutedRequests(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]bool{
		"MOVED 3999 127.0.0.1:6381":                               true,
		"ASK 3999 127.0.0.1:6381":                                 true,
		"CROSSSLOT Keys in request don't hash to the same slot":   true,
		"CLUSTERDOWN Hash slot not served":                        true,
		"TRYAGAIN Multiple keys request during rehashing of slot": true,
		"READONLY You can't write against a read only replica.":   true,
		"@user_script: 4: -READONLY You can't write.":             true,
		"MOVED": true,
		// Something may have come before.
		"ERR Error running script (call to f_1): @user_script:4: TRYAGAIN Multiple keys": false,
		"ERR Script attempted to access a non local key in a cluster node":               false,
		"ERR MOVED":     false,
		"MOVEDX":        false,
		"OOM command":   false,
		"UNKNOWN error": false,
	} {
		require.Equal(t, want, IsUnexecuted(redis.Error(line)), line)
	}
	require.False(t, IsUnexecuted(nil))
	require.False(t, IsUnexecuted(errors.New("MOVED 1 h:1")), "not of a server")
}

// A script that ended in the middle may have done something, and is tried
// again.
func TestTornScript(t *testing.T) {
	t.Parallel()
	for _, line := range []string{
		"ERR Script attempted to access a non local key in a cluster node script: 27c9aa32, on @user_script:323.",
		"ERR Error running script (call to f_27c9): @user_script:5: @user_script: 5: " +
			"Lua script attempted to access a non local key in a cluster node",
	} {
		require.True(t, IsTransient(redis.Error(line)), line)
		require.False(t, IsUnexecuted(redis.Error(line)), line)
	}
}

// Whatever a server answers, a redirect leads to a host and a port.
func FuzzRedirectLine(f *testing.F) {
	for _, line := range []string{
		"MOVED 3999 127.0.0.1:6381", "ASK 1 ::1:6381", "MOVED 1 :1",
		"MOVED 1 ?:1", "ASK 1 [::1]:1", "MOVED 1 [:1", "MOVED 1 /a:1", "ERR",
	} {
		f.Add(line, "127.0.0.1:1")
	}
	f.Fuzz(func(t *testing.T, line, from string) {
		r, ok := RedirectIn(Sanitize(redis.Error(line)))
		if !ok {
			return
		}
		require.True(t, IsUnexecuted(redis.Error(line)))
		host, port, err := net.SplitHostPort(r.To)
		require.NoError(t, err)
		require.NotEmpty(t, port)
		require.NotContains(t, host, "/", "no path of a socket")
		require.Equal(t, r.Once, strings.HasPrefix(line, "ASK "))
		if address := r.From(from); address != "" {
			_, _, err := net.SplitHostPort(address)
			require.NoError(t, err)
		}
	})
}
