package driver

import (
	"context"
	"fmt"

	"github.com/gomodule/redigo/redis"
)

// credentials log in a new connection. They have no String method, and are
// never part of an error.
type credentials struct{ user, password string }

// options returns what redigo logs in with.
func (c credentials) options() []redis.DialOption {
	if c.password == "" {
		return nil
	}
	return []redis.DialOption{redis.DialUsername(c.user), redis.DialPassword(c.password)}
}

// requests returns how many requests the log-in takes.
func (c credentials) requests() int64 {
	if c.password == "" {
		return 0
	}
	return 1
}

// ask returns the credentials for one connection.
func (d *dialer) ask(ctx context.Context) (credentials, error) {
	if d.login == nil {
		return d.fixed, nil
	}
	c, err := beside(ctx, "credentials", func() (credentials, error) {
		user, password, err := d.login(ctx)
		return credentials{user, password}, err
	}, func(credentials) {})
	if err != nil {
		return c, fmt.Errorf("credentials: %w", err)
	}
	return c, nil
}

// dialLogged opens a connection and logs in. A token may have expired, or may
// have been replaced, since the function returned it. So the function is asked
// once more after a wrong password.
func (d *dialer) dialLogged(ctx context.Context) (redis.Conn, error) {
	as, err := d.ask(ctx)
	if err != nil {
		return nil, err
	}
	c, err := d.dialAs(ctx, as)
	if d.login == nil || !isWrongPassword(err) {
		return c, err
	}
	newer, failed := d.ask(ctx)
	if failed != nil || newer == as {
		return nil, err
	}
	return d.dialAs(ctx, newer)
}

func isWrongPassword(err error) bool {
	line, ok := errorLine(err)
	return ok && code(line) == "WRONGPASS"
}

// isBreak reports whether the connection must not be used again after this
// answer, nor those that are idle. After READONLY, another one may lead to the
// new master. After NOAUTH, another one logs in again, if the credentials can
// change.
func (d *Pool) isBreak(err error) bool {
	if IsReadOnly(err) {
		return true
	}
	line, ok := errorLine(err)
	return ok && d.dialer != nil && d.dialer.login != nil && code(line) == "NOAUTH"
}
