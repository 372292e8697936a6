package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/competition"
)

// work is one process. For each line of input, a goroutine holds the lock once.
func work(ctx context.Context, in io.Reader, out io.Writer, text string) (err error) {
	role, err := competition.ParseRole(text)
	if err != nil {
		return err
	}
	client, err := relock.NewClientURL(role.Server)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, client.Close()) }()
	d := &desk{lock: relock.NewRedisLock(key, client, options(role.Mode)...), Role: role, lines: json.NewEncoder(out)}
	return d.serve(ctx, in)
}

// desk has the goroutines of a process.
type desk struct {
	competition.Role
	lock *relock.RedisLock

	mu     sync.Mutex
	lines  *json.Encoder
	failed error
}

func (d *desk) serve(ctx context.Context, in io.Reader) error {
	var group sync.WaitGroup
	for n := 1; ; n++ {
		t := competition.Turn{Process: d.Number, Goroutine: n}
		if _, err := fmt.Fscanln(in, &t.Asked); err != nil {
			break // no more
		}
		t.Place = t.Asked // in the queue
		group.Go(func() { d.take(ctx, t) })
	}
	group.Wait()
	return d.failed
}

// take has the lock once, and writes down when.
func (d *desk) take(ctx context.Context, t competition.Turn) {
	err := d.lock.Do(ctx, func(context.Context) error {
		t.From = time.Now().UnixNano()
		time.Sleep(d.Hold)
		t.To = time.Now().UnixNano()
		return nil
	})
	d.mu.Lock()
	defer d.mu.Unlock()
	d.failed = errors.Join(d.failed, err, d.lines.Encode(t))
}
