package main

import (
	"context"
	"database/sql"
	"errors"
	"strings"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/queue"
)

// prefix and the number of a row are the ID of its task.
const prefix = "outbox/"

// open returns a database with the tables of the example.
func open(ctx context.Context, path string) (*sql.DB, error) {
	db, err := sql.Open("sqlite", path)
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1) // each connection to :memory: would have its own
	_, err = db.ExecContext(ctx, `CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY);
		CREATE TABLE IF NOT EXISTS outbox (id INTEGER PRIMARY KEY AUTOINCREMENT, payload TEXT NOT NULL)`)
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}

// order writes the order and its task in one transaction.
func order(ctx context.Context, db *sql.DB, id int, fails error) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // has no effect after Commit
	_, err = tx.ExecContext(ctx, `INSERT INTO orders (id) VALUES ($1)`, id)
	if err == nil {
		_, err = tx.ExecContext(ctx, `INSERT INTO outbox (payload) VALUES ($1)`, id)
	}
	if err = errors.Join(err, fails); err != nil {
		return err
	}
	return tx.Commit()
}

// relay moves the outbox to the queue. Call it in each replica every second or
// so, and after each commit. The lock keeps the order of the rows, and has one
// replica work at a time. If others hold it, they relay.
func relay(ctx context.Context, db *sql.DB, client *relock.Client, tasks *queue.Queue) error {
	err := relock.NewRedisLock("outbox", client).TryDo(ctx, func(ctx context.Context) error {
		for {
			if n, err := relaySome(ctx, db, tasks); n == 0 || err != nil {
				return err
			}
		}
	})
	if relock.NotRun(err) && errors.Is(err, relock.ErrLockAcquiredByOthers) {
		return nil
	}
	return err
}

// relaySome enqueues up to 64 rows, and deletes those that are queued. If it
// dies in between, they are enqueued once more: the number of the row is the
// ID, and the queue refuses it while it is queued and, by WithUnique, after.
func relaySome(ctx context.Context, db *sql.DB, tasks *queue.Queue) (int, error) {
	batch, err := read(ctx, db)
	if err != nil || len(batch) == 0 {
		return 0, err
	}
	_, err = tasks.Enqueue(ctx, batch...)
	var e *queue.EnqueueError
	switch {
	case err == nil:
	case errors.As(err, &e) && len(e.Queued)+len(e.Duplicates) == len(batch): // queued before
	default:
		return 0, err // the rows stay
	}
	return len(batch), remove(ctx, db, batch)
}

// remove deletes the rows of these tasks, and no other: a transaction with a
// lower number may have committed since they were read.
func remove(ctx context.Context, db *sql.DB, batch []queue.Task) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // has no effect after Commit
	for _, t := range batch {
		if _, err := tx.ExecContext(ctx, `DELETE FROM outbox WHERE id = $1`, strings.TrimPrefix(t.ID, prefix)); err != nil {
			return err
		}
	}
	return tx.Commit()
}

// read returns the tasks of the oldest rows.
func read(ctx context.Context, db *sql.DB) (batch []queue.Task, err error) {
	rows, err := db.QueryContext(ctx, `SELECT '`+prefix+`' || id, payload FROM outbox ORDER BY id LIMIT 64`)
	if err != nil {
		return nil, err
	}
	defer rows.Close() //nolint:errcheck // Err has it
	for rows.Next() {
		t := queue.Task{Key: "mails"} // one key keeps the order
		if err := rows.Scan(&t.ID, &t.Payload); err != nil {
			return nil, err
		}
		batch = append(batch, t)
	}
	return batch, rows.Err()
}
