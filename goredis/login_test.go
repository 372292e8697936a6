package goredis_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/auth"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/redistest"
)

// setPassword replaces the password of the user, and ends the user's sessions.
func setPassword(t testing.TB, s *redistest.Server, password string) {
	t.Helper()
	s.Do(t, "ACL", "SETUSER", "app", "on", "resetpass", ">"+password, "~*", "&*", "+@all")
	s.Do(t, "CLIENT", "KILL", "USER", "app")
}

// Each way to log in that go-redis has is used, and a password that changes is
// asked for again.
func TestLogIn(t *testing.T) {
	t.Parallel()
	var password atomic.Value
	get := func() string { return password.Load().(string) }
	for name, tt := range map[string]struct {
		options redis.Options
		changes bool
	}{
		"fixed":    {redis.Options{Username: "app", Password: "one"}, false},
		"function": {redis.Options{CredentialsProvider: func() (string, string) { return "app", get() }}, true},
		"function with a context": {redis.Options{
			CredentialsProviderContext: func(context.Context) (string, string, error) { return "app", get(), nil },
			CredentialsProvider:        func() (string, string) { return "app", "of less weight" },
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := redistest.StartTCP(t)
			password.Store("one")
			setPassword(t, s, "one")
			tt.options.Addr = s.Address
			c := newClient(t, redis.NewClient(&tt.options))
			requireUser(t, s, c)
			if tt.changes {
				password.Store("two")
				setPassword(t, s, "two")
				requireUser(t, s, c)
			}
		})
	}
}

// requireUser takes a lock, and fails unless the client has logged in.
func requireUser(t *testing.T, s *redistest.Server, c *relock.Client) {
	t.Helper()
	require.NoError(t,
		relock.NewRedisLock("name", c, relock.WithBlock()).Do(t.Context(), func(context.Context) error { return nil }))
	require.Contains(t, string(s.Do(t, "CLIENT", "LIST").([]byte)), "user=app")
}

func TestLogInFails(t *testing.T) {
	t.Parallel()
	s := redistest.StartTCP(t)
	setPassword(t, s, "one")
	rdb := redis.NewClient(&redis.Options{Addr: s.Address, Username: "app", Password: "wrong-secret"})
	defer rdb.Close() //nolint:errcheck // it has no connection
	err := newClientOnly(t, rdb).Ping(t.Context())
	require.ErrorIs(t, err, relock.ErrDenied)
	require.NotContains(t, err.Error(), "wrong-secret")
}

// tokens is a provider of tokens that change.
type tokens struct {
	mu        sync.Mutex
	token     string
	err       error
	listeners map[int]auth.CredentialsListener
	next      int
}

// Subscribe notifies before it returns, which providers may do, and holds its
// mutex meanwhile.
func (p *tokens) Subscribe(l auth.CredentialsListener) (auth.Credentials, auth.UnsubscribeFunc, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err != nil {
		return nil, nil, p.err
	}
	p.next++
	id := p.next
	p.listeners[id] = l
	c := auth.NewBasicCredentials("app", p.token)
	l.OnNext(c)
	return c, func() error {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.listeners, id)
		return nil
	}, nil
}

func (p *tokens) notify(token string, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.token, p.err = token, err
	for _, l := range p.listeners {
		if err != nil {
			l.OnError(err)
		} else {
			l.OnNext(auth.NewBasicCredentials("app", token))
		}
	}
}

func (p *tokens) subscriptions() (last, open int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.next, len(p.listeners)
}

// One subscription brings each new token. If the provider fails, the next
// connection subscribes again. Close ends the subscription.
func TestStreamingCredentials(t *testing.T) {
	t.Parallel()
	s := redistest.StartTCP(t)
	setPassword(t, s, "one")
	p := &tokens{token: "one", listeners: map[int]auth.CredentialsListener{}}
	// which subscribes for each connection
	rdb := redis.NewClient(&redis.Options{Addr: s.Address, StreamingCredentialsProvider: p})
	defer rdb.Close() //nolint:errcheck // it has no connection
	c := newClientOnly(t, rdb)
	requireUser(t, s, c)
	p.notify("two", nil)
	setPassword(t, s, "two")
	requireUser(t, s, c)
	last, open := p.subscriptions()
	require.Equal(t, []int{1, 1}, []int{last, open})

	broken := errors.New("no token today")
	p.notify("", broken)
	setPassword(t, s, "three")
	require.ErrorIs(t, c.Ping(t.Context()), broken)
	p.notify("three", nil)
	requireUser(t, s, c)
	last, open = p.subscriptions()
	require.Equal(t, []int{2, 1}, []int{last, open})

	require.NoError(t, c.Close())
	_, open = p.subscriptions()
	require.Zero(t, open, "the subscription outlives the client")
}
