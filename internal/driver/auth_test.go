package driver_test

import (
	"net/url"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/locktest"
	"github.com/relock-go/relock/internal/redistest"
)

func TestPassword(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, "--requirepass", "open sesame")
	for _, tt := range []struct {
		name, password string
		opts           []relock.ClientOption
		want           string // "" where the server lets it in
	}{
		{name: "right", password: "open sesame"},
		{name: "right, default user named", password: "open sesame", opts: []relock.ClientOption{relock.WithUsername("default")}},
		{name: "wrong", password: "hunter2", want: "WRONGPASS"},
		{name: "unknown user", password: "open sesame", opts: []relock.ClientOption{relock.WithUsername("nobody")}, want: "WRONGPASS"},
		{name: "none", want: "NOAUTH"},
		{name: "none, with a database", opts: []relock.ClientOption{relock.WithDatabase(1)}, want: "NOAUTH"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, err := relock.NewClient(s.Network, s.Address, tt.password, tt.opts...)
			require.NoError(t, err)
			defer func() { require.NoError(t, c.Close()) }()
			err = c.Ping(t.Context())
			if tt.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorIs(t, err, relock.ErrDenied)
			require.ErrorContains(t, err, tt.want)
			require.False(t, relock.IsRetryableErr(err))
			require.NotContains(t, err.Error(), "hunter2")
			require.NotContains(t, err.Error(), "sesame")
		})
	}
}

func TestACLUser(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	s.Do(t, "ACL", "SETUSER", "worker", "on", ">wor|ker:p@ss", "~*", "+@all")
	c := locktest.NewTestClient(t, s) // the default user, for comparison
	require.Equal(t, "default", whoami(t, c))

	c, err := relock.NewClient(s.Network, s.Address, "wor|ker:p@ss", relock.WithUsername("worker"))
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close()) }()
	require.Equal(t, "worker", whoami(t, c))

	user := url.UserPassword("worker", "wor|ker:p@ss")
	c, err = relock.NewClientURL("unix://" + user.String() + "@" + s.Address)
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close()) }()
	require.Equal(t, "worker", whoami(t, c))
}

func whoami(t testing.TB, c *relock.Client) string {
	t.Helper()
	conns := locktest.Borrow(t, c, 1)
	defer locktest.PutBack(c, conns)
	name, err := redis.String(conns[0].Do("ACL", "WHOAMI"))
	require.NoError(t, err)
	return name
}

func TestDatabase(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	for name, newClient := range map[string]func() (*relock.Client, error){
		"option": func() (*relock.Client, error) {
			return relock.NewClient(s.Network, s.Address, "", relock.WithDatabase(3))
		},
		"URL": func() (*relock.Client, error) { return relock.NewClientURL("unix://" + s.Address + "?db=3") },
		"option beats URL": func() (*relock.Client, error) {
			return relock.NewClientURL("unix://"+s.Address+"?db=5", relock.WithDatabase(3))
		},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := newClient()
			require.NoError(t, err)
			defer func() { require.NoError(t, c.Close()) }()
			h, err := relock.NewRedisLock("k", c, relock.WithWatchdog(3*time.Second)).Acquire(t.Context())
			require.NoError(t, err)
			locktest.AwaitRenewal(t, h, 5*time.Second) // the watchdog's connection is in that database too
			require.NoError(t, h.Err())
			conn := s.Dial(t, redis.DialDatabase(3))
			defer conn.Close() //nolint:errcheck // nothing is pending
			n, err := redis.Int(conn.Do("EXISTS", locktest.KeyOf(c, "k")))
			require.NoError(t, err)
			require.Equal(t, 1, n)
			require.Equal(t, int64(0), s.Do(t, "EXISTS", locktest.KeyOf(c, "k")))
			require.NoError(t, h.Unlock(t.Context()))
		})
	}
	c := locktest.NewTestClient(t, s, relock.WithDatabase(16))
	err := c.Ping(t.Context())
	require.ErrorContains(t, err, "out of range")
	require.False(t, relock.IsRetryableErr(err))
}
