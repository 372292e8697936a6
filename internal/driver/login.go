package driver

import (
	"context"
	"fmt"
)

// credentials log in a new connection. They have no String method, and are
// never part of an error.
type credentials struct{ user, password string }

// args returns the arguments of AUTH. Without a user there is one, since older
// servers have no users.
func (c credentials) args() []any {
	if c.user == "" {
		return []any{c.password}
	}
	return []any{c.user, c.password}
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
func (d *dialer) dialLogged(ctx context.Context) (*conn, error) {
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

func isWrongPassword(err error) bool { return hasCode(err, "WRONGPASS") }

// isBreak reports whether the connection must not be used again after this
// answer, nor those that are idle. After READONLY, another one may lead to the
// new master. After NOAUTH, another one logs in again, if the credentials can
// change.
func (d *Pool) isBreak(err error) bool {
	return IsReadOnly(err) || d.dialer != nil && d.dialer.login != nil && hasCode(err, "NOAUTH")
}
