package goredis

import (
	"context"
	"sync"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/auth"
)

// loginOf returns the credentials of a new connection, in the order of
// precedence of go-redis, and a function that ends their use.
func loginOf(
	o *redis.Options,
) (login func(context.Context, string) (user, password string, err error), logout func() error) {
	nothing := func() error { return nil }
	switch {
	case o.StreamingCredentialsProvider != nil:
		s := &stream{provider: o.StreamingCredentialsProvider}
		return s.login, s.close
	case o.CredentialsProviderContext != nil:
		return func(ctx context.Context, _ string) (string, string, error) { return o.CredentialsProviderContext(ctx) },
			nothing
	case o.CredentialsProvider != nil:
		return func(context.Context, string) (user, password string, err error) {
			user, password = o.CredentialsProvider()
			return user, password, nil
		}, nothing
	}
	return func(context.Context, string) (string, string, error) { return o.Username, o.Password, nil }, nothing
}

// stream is a subscription to credentials that change. It begins with the first
// connection. After an error of the provider, the next connection subscribes
// again.
type stream struct {
	provider auth.StreamingCredentialsProvider
	one      sync.Mutex // subscribes; not taken by the provider or by close

	mu      sync.Mutex
	latest  auth.Credentials // nil without a subscription that works
	cancels []auth.UnsubscribeFunc
	closed  bool
}

func (s *stream) login(context.Context, string) (user, password string, err error) {
	s.one.Lock()
	defer s.one.Unlock()
	c := s.current()
	if c == nil {
		if c, err = s.subscribe(); err != nil {
			return "", "", err
		}
	}
	user, password = c.BasicAuth()
	return user, password, nil
}

func (s *stream) current() auth.Credentials {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.latest
}

// subscribe replaces the subscription by a new one. A provider may hold its own
// mutex while it notifies. So none of ours is held that OnNext takes.
func (s *stream) subscribe() (auth.Credentials, error) {
	_ = s.unsubscribe() // its provider has failed
	c, cancel, err := s.provider.Subscribe(s)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	closed := s.closed
	s.cancels = append(s.cancels, cancel)
	if s.latest == nil {
		s.latest = c // not if OnNext has brought a newer one
	}
	c = s.latest
	s.mu.Unlock()
	if closed {
		return c, s.unsubscribe()
	}
	return c, nil
}

func (s *stream) unsubscribe() (err error) {
	s.mu.Lock()
	cancels := s.cancels
	s.cancels = nil
	s.mu.Unlock()
	for _, cancel := range cancels {
		if cancel != nil {
			err = cancel()
		}
	}
	return err
}

// OnNext is called by the provider with new credentials.
func (s *stream) OnNext(c auth.Credentials) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.latest = c
}

// OnError is called by the provider if it has no new credentials.
func (s *stream) OnError(error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.latest = nil
}

func (s *stream) close() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	return s.unsubscribe()
}
