package driver

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
)

// Topology says where the servers of a client are. The root package documents
// its fields.
type Topology struct {
	Master     func(ctx context.Context, key string) (address string, err error)
	Cached     func(key string) (address string, known bool)
	Masters    func(ctx context.Context) (addresses []string, err error)
	Dial       func(ctx context.Context, address string) (net.Conn, error)
	Login      func(ctx context.Context, address string) (user, password string, err error)
	Redirect   func(key, from, to string, once bool) (address string)
	Sharded    bool
	Invalidate func(address string)
	Refresh    func(ctx context.Context) error
	Changes    <-chan struct{}
	LogTo      func(logger *slog.Logger)
	Close      func() error
}

// ErrNoMaster is matched by the error of Master for a key that has no server
// now, and may have one soon. A request waits for it, if the topology has a
// Refresh. A job of a worker does not, since others of its batch would wait,
// too.
var ErrNoMaster = fmt.Errorf("the key has no master now: %w", os.ErrDeadlineExceeded)

// ConfigOf returns the settings of the node with this address.
func (t *Topology) ConfigOf(c *Config, address string) *Config {
	one := *c
	one.Network, one.Address = "tcp", address
	if strings.HasPrefix(address, "/") {
		one.Network = "unix"
	}
	if t.Dial != nil {
		one.Dial = func(ctx context.Context, _, _ string) (net.Conn, error) { return t.Dial(ctx, address) }
	}
	if t.Login != nil {
		one.Login = func(ctx context.Context) (user, password string, err error) { return t.Login(ctx, address) }
	}
	return &one
}

// TagOf returns the part of a key that decides its node: what is in its first
// braces, or else the whole key.
func TagOf(key string) string {
	_, rest, found := strings.Cut(key, "{")
	if tag, _, closed := strings.Cut(rest, "}"); found && closed && tag != "" {
		return tag
	}
	return key
}
