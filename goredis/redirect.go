package goredis

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"reflect"
	"strings"
	"time"

	redigo "github.com/gomodule/redigo/redis"
	"github.com/redis/go-redis/v9"

	"github.com/relock-go/relock"
)

// redirect returns the address to use for one that a server has named. Unless
// it is for once, the key's slot has its master there from now on.
func (c *cluster) redirect(key, from, to string, once bool) string {
	address := c.reach(named(from, to))
	if address != "" && !once && key != "" {
		c.fix(key, address)
	}
	return address
}

// named returns the address of a server that the one at from has named. Its
// host is empty if it is the same one. A server that knows itself as a loopback
// address only is at the same one, too, as for go-redis.
func named(from, to string) string {
	host, port, err := net.SplitHostPort(to)
	if err != nil {
		return ""
	}
	asker, _, err := net.SplitHostPort(from)
	switch {
	case host == "" && err != nil:
		return ""
	case host == "", err == nil && isLoopback(host) && asker != "" && !isLoopback(asker):
		host = asker
	}
	return net.JoinHostPort(host, port)
}

func isLoopback(host string) bool {
	return strings.EqualFold(host, "localhost") || net.ParseIP(host).IsLoopback()
}

// reach returns the address by which rdb knows a server. It keeps how to
// connect to one that the table lacks: it may be new.
func (c *cluster) reach(address string) string {
	if address == "" || c.optionsOf(address) != nil {
		return address
	}
	o := newServer(c.rdb.Options(), address)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.others[o.Addr] = o
	return o.Addr
}

// optionsOf returns the options of a server, or nil.
func (c *cluster) optionsOf(address string) *redis.Options {
	c.mu.Lock()
	defer c.mu.Unlock()
	if o := c.table[address]; o != nil {
		return o
	}
	return c.others[address]
}

// newServer returns the options of a server that rdb does not know. NewClient
// may be the user's, and change them. That of go-redis looks up names, which
// takes time.
func newServer(o *redis.ClusterOptions, address string) *redis.Options {
	one := &redis.Options{
		Addr: address, Network: "tcp", Dialer: o.Dialer, DialTimeout: cmp.Or(o.DialTimeout, 5*time.Second), TLSConfig: o.TLSConfig,
		Protocol: 2, // nothing to listen to
	}
	if reflect.ValueOf(o.NewClient).Pointer() != reflect.ValueOf(redis.NewClient).Pointer() {
		node := o.NewClient(one)
		defer node.Close() //nolint:errcheck // it has no connection
		return node.Options()
	}
	if one.Dialer == nil {
		one.Dialer = redis.NewDialer(one)
	}
	return one
}

// dial connects to a server as rdb does.
func (c *cluster) dial(ctx context.Context, address string) (net.Conn, error) {
	o := c.optionsOf(address)
	if o == nil {
		o = newServer(c.rdb.Options(), address)
	}
	return o.Dialer(ctx, o.Network, o.Addr)
}

// explain returns an error of rdb as one that relock knows.
func explain(err error) error {
	var line redis.Error
	switch {
	case err == nil:
		return nil
	case strings.Contains(err.Error(), "cluster support disabled"):
		return fmt.Errorf("%w: rdb: the server is no Cluster; use redis.NewClient", relock.ErrInvalid)
	case errors.Is(err, redis.ErrPoolTimeout):
		return fmt.Errorf("%w: %w", err, os.ErrDeadlineExceeded)
	case errors.As(err, &line):
		return redigo.Error(err.Error())
	}
	return err
}
