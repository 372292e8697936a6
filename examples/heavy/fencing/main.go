// Fencing writes to a SQL database under a lock. The database refuses the write
// of a holder that has lost the lock. It needs only Go, see quickstart.
package main

import (
	"context"
	"database/sql"
	"errors"
	"io"
	"log"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/examples/internal/embedded"
	_ "modernc.org/sqlite" // or the driver of your database
)

func main() { embedded.Main(run) }

func run(ctx context.Context, out io.Writer, url string) error {
	client, err := relock.NewClientURL(url)
	if err != nil {
		return err
	}
	defer client.Close() //nolint:errcheck // nothing is held by then
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		return err
	}
	defer db.Close()      //nolint:errcheck // it is in memory
	db.SetMaxOpenConns(1) // each connection would have its own memory
	if _, err := db.ExecContext(ctx, `CREATE TABLE account AS SELECT 7 AS id, 100 AS balance, 0 AS fence`); err != nil {
		return err
	}
	first, lines := relock.NewRedisLock("account:7", client, relock.WithFencing()), log.New(out, "", 0)
	err = first.Do(ctx, func(paused context.Context) error {
		next := relock.NewRedisLock("account:7", client, relock.WithFencing())
		write := func(ctx context.Context) error { return setBalance(ctx, db, 70) }
		lines.Println("next holder:", errors.Join(client.ForceUnlock(ctx, "account:7", "it is paused"), next.Do(ctx, write)))
		lines.Println("paused holder:", setBalance(context.WithoutCancel(paused), db, 30))
		return nil
	})
	lines.Println("lost:", errors.Is(err, relock.ErrLockLost))
	return nil
}

func setBalance(ctx context.Context, db *sql.DB, balance int) error {
	hold, found := relock.HoldFromContext(ctx, "account:7")
	if !found {
		return errors.New("not under a lock")
	}
	result, err := db.ExecContext(ctx,
		`UPDATE account SET balance = $1, fence = $2 WHERE id = 7 AND fence <= $2 AND $2 > 0`, balance, hold.Fence())
	if err != nil {
		return err
	}
	if n, err := result.RowsAffected(); n == 0 {
		return errors.Join(errors.New("too late, no token, or no such row"), err)
	}
	return nil
}
