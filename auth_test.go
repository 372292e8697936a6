package relock

import (
	"net/url"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/redistest"
)

func TestPassword(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, "--requirepass", "open sesame")
	for _, tt := range []struct {
		name, password string
		opts           []ClientOption
		want           string // "" where the server lets it in
	}{
		{name: "right", password: "open sesame"},
		{name: "right, default user named", password: "open sesame", opts: []ClientOption{WithUsername("default")}},
		{name: "wrong", password: "hunter2", want: "WRONGPASS"},
		{name: "unknown user", password: "open sesame", opts: []ClientOption{WithUsername("nobody")}, want: "WRONGPASS"},
		{name: "none", want: "NOAUTH"},
		{name: "none, with a database", opts: []ClientOption{WithDatabase(1)}, want: "NOAUTH"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, err := NewClient(s.Network, s.Address, tt.password, tt.opts...)
			require.NoError(t, err)
			defer func() { require.NoError(t, c.Close()) }()
			err = c.Ping(t.Context())
			if tt.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorIs(t, err, ErrDenied)
			require.ErrorContains(t, err, tt.want)
			require.False(t, IsRetryableErr(err))
			require.NotContains(t, err.Error(), "hunter2")
			require.NotContains(t, err.Error(), "sesame")
		})
	}
}

func TestACLUser(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	s.Do(t, "ACL", "SETUSER", "worker", "on", ">wor|ker:p@ss", "~*", "+@all")
	c := newTestClient(t, s) // the default user, for comparison
	require.Equal(t, "default", whoami(t, c))

	c, err := NewClient(s.Network, s.Address, "wor|ker:p@ss", WithUsername("worker"))
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close()) }()
	require.Equal(t, "worker", whoami(t, c))

	user := url.UserPassword("worker", "wor|ker:p@ss")
	c, err = NewClientURL("unix://" + user.String() + "@" + s.Address)
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close()) }()
	require.Equal(t, "worker", whoami(t, c))
}

func whoami(t testing.TB, c *Client) string {
	t.Helper()
	conns := borrow(t, c, 1)
	defer putBack(c, conns)
	name, err := redis.String(conns[0].Do("ACL", "WHOAMI"))
	require.NoError(t, err)
	return name
}

func TestDatabase(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	for name, newClient := range map[string]func() (*Client, error){
		"option": func() (*Client, error) { return NewClient(s.Network, s.Address, "", WithDatabase(3)) },
		"URL":    func() (*Client, error) { return NewClientURL("unix://" + s.Address + "?db=3") },
		"option beats URL": func() (*Client, error) {
			return NewClientURL("unix://"+s.Address+"?db=5", WithDatabase(3))
		},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := newClient()
			require.NoError(t, err)
			defer func() { require.NoError(t, c.Close()) }()
			h, err := NewRedisLock("k", c, WithWatchdog(3*time.Second)).Acquire(t.Context())
			require.NoError(t, err)
			awaitRenewal(t, h, 5*time.Second) // the watchdog's connection is in that database too
			require.NoError(t, h.Err())
			conn := s.Dial(t, redis.DialDatabase(3))
			defer conn.Close() //nolint:errcheck // nothing is pending
			n, err := redis.Int(conn.Do("EXISTS", keyOf(c, "k")))
			require.NoError(t, err)
			require.Equal(t, 1, n)
			require.Equal(t, int64(0), s.Do(t, "EXISTS", keyOf(c, "k")))
			require.NoError(t, h.Unlock(t.Context()))
		})
	}
	c := newTestClient(t, s, WithDatabase(16))
	err := c.Ping(t.Context())
	require.ErrorContains(t, err, "out of range")
	require.False(t, IsRetryableErr(err))
}
