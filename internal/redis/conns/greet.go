package conns

import (
	"context"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/relock-go/relock/internal/redis/driver"
	"github.com/relock-go/relock/internal/redis/wire"
)

// dialGreeted opens a connection outside the pool. That a connection was
// accepted shows little: a full server accepts it first, and something in
// between may accept it for a server that never sees it. So the dial ends with
// the server's first answer, and without one it hangs.
func (d *server) dialGreeted(ctx context.Context) (redis.Conn, error) {
	conn, err := d.dial(ctx)
	if err != nil {
		return nil, err
	}
	if err := greet(ctx, conn); err != nil {
		d.discard(conn)
		return nil, err
	}
	return conn, nil
}

// greet waits for the server's first answer on a new connection. An error line
// is one, unless it refuses the client.
func greet(ctx context.Context, conn redis.Conn) error {
	var err error
	if own, ok := conn.(*wire.Conn); ok {
		err = own.Greet(ctx)
	} else {
		_, err = wire.Beside(ctx, "connection", func() (any, error) { return pingUsers(ctx, conn) }, func(any) {})
	}
	if driver.IsAnswer(err) && !driver.IsRefusal(err) {
		return nil
	}
	return err
}

// pingUsers asks for an answer on a user's connection.
func pingUsers(ctx context.Context, on redis.Conn) (any, error) {
	reply, err := redis.DoContext(on, ctx, "PING")
	if until, ok := ctx.Deadline(); ok && lacksContexts(err) {
		return doWithTimeout(on, time.Until(until), driver.Request{Cmd: "PING"})
	}
	return reply, err
}

// lacksContexts reports whether nothing was sent, because a user's connection
// takes no context.
func lacksContexts(err error) bool {
	return err != nil && strings.HasSuffix(err.Error(), "does not support ConnWithContext")
}

// discard closes a connection, on a goroutine. The Close of a user's connection
// may block, and the caller has others to serve.
func (d *server) discard(conn redis.Conn) {
	cut := func() { _ = conn.Close() }
	if !d.tasks.Start(cut) {
		cut()
	}
}
