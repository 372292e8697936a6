package relock_test

import (
	"context"
	"errors"
	"net"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/redis/driver"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/redistest"
)

// oneServer is a topology of one server.
func oneServer(s *redistest.Server) *driver.Topology {
	return &driver.Topology{
		Master:  func(context.Context, string) (string, error) { return s.Address, nil },
		Masters: func(context.Context) ([]string, error) { return []string{s.Address}, nil },
	}
}

func TestTopologyMistakes(t *testing.T) {
	t.Parallel()
	whole := oneServer(&redistest.Server{})
	whole.Dial = func(context.Context, string) (net.Conn, error) { return nil, net.ErrClosed }
	whole.Login = func(context.Context, string) (user, password string, err error) { return "", "", nil }
	dialer := relock.WithDialer(func(context.Context, string, string) (net.Conn, error) { return nil, net.ErrClosed })
	login := relock.WithCredentials(func(context.Context) (user, password string, err error) { return "", "", nil })
	for _, tt := range []struct {
		topology *driver.Topology
		opts     []relock.ClientOption
		names    []string
	}{
		{&driver.Topology{}, nil, []string{"Master", "Masters"}},
		{whole, []relock.ClientOption{dialer}, []string{"WithDialer: the topology has a Dial"}},
		{whole, []relock.ClientOption{relock.WithTLS(nil)}, []string{"WithTLS: the topology has a Dial"}},
		{whole, []relock.ClientOption{login}, []string{"Login beside WithCredentials"}},
		{whole, []relock.ClientOption{relock.WithUsername("app")}, []string{"Login beside", "WithUsername"}},
		{whole, []relock.ClientOption{relock.WithMaxIdle(-1), nil}, []string{"WithMaxIdle", "opts[1]"}},
	} {
		requireMistakes(t, second(locktest.NewRoutedClient(tt.topology, tt.opts...)), "new client", tt.names...)
	}
}

// The topology connects, logs in and is closed with its client.
func TestTopologyDialsAndLogsIn(t *testing.T) {
	t.Parallel()
	s := redistest.StartTCP(t, "--requirepass", "secret")
	all := oneServer(s)
	var addresses []string
	all.Dial = func(ctx context.Context, address string) (net.Conn, error) {
		addresses = append(addresses, address)
		return (&net.Dialer{}).DialContext(ctx, "tcp", address)
	}
	all.Login = func(_ context.Context, address string) (user, password string, err error) {
		addresses = append(addresses, address)
		return "", "secret", nil
	}
	stuck := errors.New("watch is stuck")
	all.Close = func() error { return stuck }
	c, err := locktest.NewRoutedClient(all, relock.WithDatabase(3))
	require.NoError(t, err)
	require.NoError(t, c.Ping(t.Context()))
	require.Equal(t, []string{s.Address, s.Address}, addresses)
	require.ErrorIs(t, c.Close(), stuck)
}

// An address that is empty is no server.
func TestTopologyWithoutAnAddress(t *testing.T) {
	t.Parallel()
	c, err := locktest.NewRoutedClient(oneServer(&redistest.Server{}))
	require.NoError(t, err)
	_, err = relock.NewRedisLock("k", c).Acquire(t.Context())
	require.ErrorContains(t, err, "no server for the key: the topology returned an empty address")
	require.Error(t, c.Ping(t.Context()))
	require.NoError(t, c.Close())
}
