package wire

import (
	"context"
	"fmt"

	"github.com/relock-go/relock/internal/redis/driver"
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
func (d *Dialer) ask(ctx context.Context) (credentials, error) {
	if d.Login == nil {
		return d.fixed, nil
	}
	c, err := Beside(ctx, "credentials", func() (credentials, error) {
		user, password, err := d.Login(ctx)
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
func (d *Dialer) dialLogged(ctx context.Context) (*Conn, error) {
	as, err := d.ask(ctx)
	if err != nil {
		return nil, err
	}
	c, err := d.dialAs(ctx, as)
	if d.Login == nil || !isWrongPassword(err) {
		return c, err
	}
	newer, failed := d.ask(ctx)
	if failed != nil || newer == as {
		return nil, err
	}
	return d.dialAs(ctx, newer)
}

func isWrongPassword(err error) bool { return driver.HasCode(err, "WRONGPASS") }
