package driver

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
)

// Topology says where the servers of a client are. Its functions may be called
// concurrently, must return when their context ends, and must not use the
// client.
//
// An address is host:port, or the path of a unix socket. Addresses name
// servers: all clients must use the same one for a key, or two of them can hold
// one lock. A topology may move a key to another server once the old server
// refuses writes of it.
type Topology struct {
	// Master returns the address of the server that takes writes of a key. The
	// key is as in Redis, with prefix and braces. Keys with the same text in
	// their first braces have the same server. The empty key means any server.
	//
	// It is called for each request and each renewal, so it should answer from
	// memory, unless there is a Cached.
	Master func(ctx context.Context, key string) (address string, err error)

	// Cached returns what Master would, if that is in memory. Then Master is
	// not called, and the request costs no context with a limit. It must return
	// immediately. It is optional.
	Cached func(key string) (address string, known bool)

	// Masters returns the addresses of all servers that take writes.
	Masters func(ctx context.Context) (addresses []string, err error)

	// Dial opens a connection to a server, encrypted if that is wanted. It
	// is optional, and excludes relock.WithDialer and relock.WithTLS.
	// Without it the options of the client apply.
	Dial func(ctx context.Context, address string) (net.Conn, error)

	// Login returns the user and the password of a new connection to a
	// server, see relock.WithCredentials. It is optional, and excludes the
	// other ways to log in.
	Login func(ctx context.Context, address string) (user, password string, err error)

	// Redirect is called if the server at from answers that another one takes
	// requests for a key. It returns the address to send the request to. With
	// MOVED, once is false: the server at to has the key from now on, and
	// Master should return it. With ASK, once is true: only this request goes
	// there. The address in to is host:port, as the server named it. Its host
	// is empty if it is the host of from.
	//
	// It must return immediately. It is optional: without it, the request is
	// sent to that address. At most 5 redirects of a request follow each other.
	Redirect func(key, from, to string, once bool) (address string)

	// Sharded reports that messages about a lock go to a sharded channel in the
	// slot of the lock. They are sent by SPUBLISH, which a server has since
	// Redis 7.0. Without it, they go to one channel of the client.
	Sharded bool

	// Invalidate is called if a server does not answer, takes no writes, or
	// redirects a request by MOVED. It must return immediately. It is optional.
	Invalidate func(address string)

	// Refresh looks for the servers, and returns when a look that began after
	// the call has ended, or when ctx ends. Master then returns what it found.
	// It is optional. With it, a request that surely was not executed waits for
	// a look, and goes on at the server that Master names then. It is also
	// called beside a request to a server that has not answered for 5 s.
	Refresh func(ctx context.Context) error

	// Changes has a value if masters have changed. Then the connections to
	// servers that are not among Masters are closed, and all waiters check. It
	// is optional.
	Changes <-chan struct{}

	// LogTo is called once, before all others, with the logger of the
	// client. It is optional.
	LogTo func(logger *slog.Logger)

	// Close is called by Close of the client. It is optional.
	Close func() error
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
