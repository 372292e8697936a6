package goredis_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/auth"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/goredis"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

// All mistakes in the options are in one error.
func TestRefusedOptionsOfSentinels(t *testing.T) {
	t.Parallel()
	whole := redis.FailoverOptions{MasterName: "main", SentinelAddrs: []string{"127.0.0.1:1"}}
	login := func(context.Context) (user, password string, err error) { return "", "", nil }
	dial := func(context.Context, string, string) (net.Conn, error) { return nil, net.ErrClosed }
	for _, tt := range []struct {
		o     *redis.FailoverOptions
		opt   relock.ClientOption
		names []string
	}{
		{nil, nil, []string{"options: are nil"}},
		{&redis.FailoverOptions{}, nil, []string{"MasterName: is empty", "SentinelAddrs: none is given"}},
		{&redis.FailoverOptions{
			MasterName: "main", SentinelAddrs: []string{"h:1", "redis://me:hunter2@h"}, ReplicaOnly: true,
		}, nil, []string{"SentinelAddrs[1]", "ReplicaOnly"}},
		{&whole, relock.WithUsername("app"), []string{"WithUsername"}},
		{&whole, relock.WithCredentials(login), []string{"WithCredentials"}},
		{&whole, relock.WithDialer(dial), []string{"WithDialer"}},
		{&whole, relock.WithTLS(nil), []string{"WithTLS"}},
	} {
		var opts []relock.ClientOption
		if tt.opt != nil {
			opts = append(opts, tt.opt)
		}
		_, err := goredis.NewClientSentinel(tt.o, opts...)
		require.ErrorIs(t, err, relock.ErrInvalid)
		require.NotContains(t, err.Error(), "hunter2")
		for _, name := range tt.names {
			require.ErrorContains(t, err, name)
		}
	}
}

// The dialer, the database, and the log-ins of Sentinels and servers are those
// of the options. What belongs to connections of go-redis is not used.
func TestOptionsOfSentinels(t *testing.T) {
	t.Parallel()
	s := redistest.StartSentinels(t, testkit.Patience)
	for _, one := range s.Sentinels {
		one.Do(t, "ACL", "SETUSER", "watch", "on", ">eyes", "allchannels", "+@all")
	}
	master := s.Servers[0]
	master.Do(t, "ACL", "SETUSER", "app", "on", ">one", "~*", "&*", "+@all")
	var mu sync.Mutex
	var dialled []string
	p := &tokens{token: "one", listeners: map[int]auth.CredentialsListener{}}
	c := newClientOfSentinels(t, failoverOptions(s, func(o *redis.FailoverOptions) {
		o.SentinelUsername, o.SentinelPassword, o.DB = "watch", "eyes", 3
		if f := reflect.ValueOf(o).Elem().FieldByName("StreamingCredentialsProvider"); f.IsValid() {
			f.Set(reflect.ValueOf(p))
		} else { // v9.9.0
			o.Username, o.Password = "app", "one"
		}
		o.OnConnect = func(context.Context, *redis.Conn) error { return errors.New("not to be called") }
		o.Dialer = func(ctx context.Context, network, address string) (net.Conn, error) {
			mu.Lock()
			defer mu.Unlock()
			dialled = append(dialled, address)
			return (&net.Dialer{}).DialContext(ctx, network, address)
		}
	}))
	requireUser(t, master, c)
	require.NoError(t, relock.NewRedisLock("kept", c).Lock(t.Context()))
	require.Contains(t, string(master.Do(t, "INFO", "keyspace").([]byte)), "db3:")
	mu.Lock()
	require.Contains(t, dialled, master.Address)
	require.True(t, slices.ContainsFunc(s.Addresses(), func(at string) bool { return slices.Contains(dialled, at) }))
	mu.Unlock()
	awaitListeners(t, s, "watch", 1)
	require.NoError(t, c.Close())
	awaitListeners(t, s, "watch", 0)
	_, open := p.subscriptions()
	require.Zero(t, open, "the subscription outlives the client")
}

// TLSConfig is for Sentinels and servers.
func TestTLSOfSentinels(t *testing.T) {
	t.Parallel()
	s := redistest.StartSentinels(t, testkit.Patience)
	web := httptest.NewTLSServer(nil) // for its certificate of 127.0.0.1
	defer web.Close()
	trusted := x509.NewCertPool()
	trusted.AddCert(web.Certificate())
	_, port, err := net.SplitHostPort(s.Servers[0].Encrypt(t, web.TLS.Certificates))
	require.NoError(t, err)
	s.Sentinels[0].Do(t, "SENTINEL", "MONITOR", "encrypted", "127.0.0.1", port, 3)
	encrypted := func(o *redis.FailoverOptions) {
		o.MasterName, o.SentinelAddrs = "encrypted", []string{s.Sentinels[0].Encrypt(t, web.TLS.Certificates)}
		o.TLSConfig = &tls.Config{RootCAs: trusted, MinVersion: tls.VersionTLS12}
	}
	pingUntil := func(enough func(error) bool, change ...func(*redis.FailoverOptions)) {
		c := newClientOfSentinels(t, failoverOptions(s, append([]func(*redis.FailoverOptions){encrypted}, change...)...))
		testkit.Eventually(t, testkit.Patience, func() bool { return enough(c.Ping(t.Context())) },
			"the first handshakes may be late")
	}
	pingUntil(func(err error) bool { return err == nil })
	pingUntil(func(err error) bool { return err != nil && strings.Contains(err.Error(), "elsewhere.test") },
		func(o *redis.FailoverOptions) { o.TLSConfig.ServerName = "elsewhere.test" })
	require.Error(t, newClientOfSentinels(t, failoverOptions(s, encrypted, func(o *redis.FailoverOptions) {
		o.TLSConfig = nil
	})).Ping(t.Context()))
}

// Errors have the class that decides what a caller does: a blocking call waits
// for Sentinels that are silent, and for nothing that only the user can mend.
func TestErrorsOfSentinels(t *testing.T) {
	t.Parallel()
	s := redistest.StartSentinels(t, testkit.Patience)
	for _, one := range s.Sentinels {
		one.Do(t, "ACL", "SETUSER", "watch", "on", ">eyes", "allchannels", "+@all")
	}
	for name, tt := range map[string]struct {
		change func(*redis.FailoverOptions)
		want   error
		text   string
	}{
		"unknown master": {
			func(o *redis.FailoverOptions) { o.MasterName = "elsewhere" }, relock.ErrInvalid, `"elsewhere"`,
		},
		"wrong log-in": {
			func(o *redis.FailoverOptions) { o.SentinelUsername, o.SentinelPassword = "watch", "hunter2" },
			relock.ErrDenied, "see SentinelUsername and SentinelPassword",
		},
		"log-in of the servers": {
			func(o *redis.FailoverOptions) { o.Username, o.Password = "app", "hunter2" }, relock.ErrDenied, "WRONGPASS",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := relock.NewRedisLock("name", newClientOfSentinels(t, failoverOptions(s, tt.change)), relock.WithBlock()).
				Lock(t.Context())
			require.ErrorIs(t, err, tt.want)
			require.False(t, relock.IsRetryableErr(err))
			require.ErrorContains(t, err, tt.text)
			require.NotContains(t, err.Error(), "hunter2")
		})
	}
	silent := newClientOfSentinels(t, &redis.FailoverOptions{MasterName: "main", SentinelAddrs: []string{"127.0.0.1:1"}})
	require.True(t, relock.IsRetryableErr(silent.Ping(t.Context())))
}

// The log of the client has the answers of Sentinels that do not count.
func TestLogOfSentinels(t *testing.T) {
	t.Parallel()
	s := redistest.StartSentinels(t, testkit.Patience)
	s.Sentinels[0].Do(t, "SENTINEL", "REMOVE", redistest.SentinelName)
	s.Sentinels[1].Pause(t)
	s.Sentinels[2].Kill(t)
	log := &testkit.Log{}
	err := newClientOfSentinels(t, failoverOptions(s), relock.WithLogger(log.Logger())).Ping(t.Context())
	require.True(t, relock.IsRetryableErr(err), err)
	testkit.Eventually(t, testkit.Patience,
		func() bool { return log.Lines("level=WARN", s.Sentinels[0].Address+": knows no master") == 1 }, log.String())
	s.Sentinels[1].Resume(t)
}
