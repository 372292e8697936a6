package wire

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/redis/driver"
)

// Dialer opens connections to one server, according to the options.
type Dialer struct {
	network, Address string
	timeout          time.Duration
	tls              *tls.Config // nil if not encrypted
	sockets          *Sockets
	connect          func(ctx context.Context, network, address string) (net.Conn, error) // the user's, or nil
	kind             atomic.Int32                                                         // of the connections so far
	limit            time.Duration                                                        // of a command
	fixed            credentials
	Login            func(context.Context) (user, password string, err error) // in place of fixed, or nil
	database         int
}

// The kinds of connections that a user's dialer has returned. Only on a plain
// one, which nothing buffers, a caller can wait for an answer.
const (
	kindUnknown = iota
	kindPlain
	kindOther // one of them, or all
)

// NewDialer returns a dialer by the options, which opens sockets of s.
func NewDialer(c *driver.Config, s *Sockets) *Dialer {
	d := &Dialer{
		network: c.Network, Address: c.Address, timeout: c.DialTimeout,
		sockets: s, tls: tlsConfig(c), database: c.Database, connect: c.Dial,
	}
	if c.Dial == nil {
		d.kind.Store(kindPlain)
	}
	d.limit = c.CommandTimeout
	d.fixed, d.Login = credentials{c.Username, *c.Password}, c.Login
	return d
}

func tlsConfig(c *driver.Config) *tls.Config {
	if !c.UseTLS {
		return nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.TLS != nil {
		config = c.TLS.Clone()
	}
	if host, _, err := net.SplitHostPort(c.Address); err == nil && config.ServerName == "" {
		config.ServerName = host
	}
	return config
}

// Dial connects, encrypts and authenticates, all within the timeout.
func (d *Dialer) Dial(ctx context.Context) (*Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, d.timeout)
	defer cancel()
	return d.dialLogged(ctx)
}

func (d *Dialer) dialAs(ctx context.Context, as credentials) (*Conn, error) {
	s, err := d.open(ctx, d.network, d.Address)
	if err != nil {
		return nil, err
	}
	plain, err := d.encrypt(ctx, s)
	if err != nil {
		return nil, err
	}
	opened := NewConn(plain, s, d.tls == nil && s.raw != nil, d.limit)
	if err := d.greet(ctx, opened, as); err != nil {
		_ = opened.Close() // not used yet
		return nil, err
	}
	return opened, nil
}

// greet logs in and selects the database. After each request it looks whether
// the answer came twice.
func (d *Dialer) greet(ctx context.Context, opened *Conn, as credentials) error {
	if as.password != "" {
		if err := opened.ask(ctx, &driver.Request{Cmd: "AUTH", Args: as.args()}); err != nil {
			return err
		}
	}
	if d.database != 0 {
		return opened.ask(ctx, &driver.Request{Cmd: "SELECT", Args: []any{d.database}})
	}
	return nil
}

// ask runs a command of a new connection.
func (c *Conn) ask(ctx context.Context, r *driver.Request) error {
	_, err := c.Call(ctx, c.timeout, r)
	switch {
	case errors.Is(err, ErrInterrupted) || errors.Is(err, ErrUnwritten):
		return ctx.Err()
	case err != nil:
		return err
	}
	return c.checkGreeting()
}

// Greet waits for the server's first answer on a new connection. One that has
// logged in has it. Others ask for it. The server may have spoken before, and
// may say no more: a wait on the socket that begins with the write misses that.
func (c *Conn) Greet(ctx context.Context) error {
	if c.answers.whole.Load() > 0 {
		return nil
	}
	if _, err := c.doBeside(ctx, c.timeout, driver.Request{Cmd: "PING"}); err != nil {
		return err
	}
	return c.checkGreeting()
}

func (d *Dialer) open(ctx context.Context, network, address string) (*socket, error) {
	if d.connect != nil {
		return d.openAsUser(ctx, network, address)
	}
	plain, err := (&net.Dialer{KeepAlive: 30 * time.Second}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return d.sockets.add(plain)
}

// openAsUser connects by the user's dialer.
func (d *Dialer) openAsUser(ctx context.Context, network, address string) (*socket, error) {
	dial := func() (*socket, error) {
		c, err := d.connect(ctx, network, address)
		switch {
		case err != nil:
			return nil, err
		case c == nil:
			return nil, errNoConn
		}
		return d.sockets.add(c)
	}
	s, err := Beside(ctx, "dialer", dial, func(s *socket) { _ = s.Close() })
	if err != nil {
		return nil, err
	}
	if s.raw == nil {
		d.kind.Store(kindOther)
	}
	d.kind.CompareAndSwap(kindUnknown, kindPlain)
	return s, nil
}

var errNoConn = fmt.Errorf("%w: dialer: returned neither a connection nor an error", errs.ErrInvalid)

// encrypt puts TLS on the socket, if the options require it. redigo's own TLS
// ignores the context.
func (d *Dialer) encrypt(ctx context.Context, s *socket) (net.Conn, error) {
	if d.tls == nil {
		return s, nil
	}
	encrypted := tls.Client(s, d.tls)
	if err := encrypted.HandshakeContext(ctx); err != nil {
		_ = s.Close() // the handshake's error says more
		return nil, err
	}
	return encrypted, nil
}

// Interruptible reports whether callers can leave a call on these connections
// without a goroutine. For that, a caller must be able to wait on the socket,
// and what can be read from it must be an answer.
func (d *Dialer) Interruptible() bool {
	return d.tls == nil && canWait && d.kind.Load() == kindPlain
}
