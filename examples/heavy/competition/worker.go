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
)

// variable is the environment variable with the role of a competing process.
const variable = "RELOCK_COMPETITION_PROCESS"

// role is what a process has to do.
type role struct {
	Number          int // of the process, from 1
	Backend, Server string
	Fair            bool
	Hold            time.Duration // for how long each goroutine has the lock
}

// work is one process. For each line of input, a goroutine holds the lock once.
func work(ctx context.Context, in io.Reader, out io.Writer, text string) (err error) {
	var r role
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		return fmt.Errorf("role: %w", err)
	}
	b, err := backends[r.Backend].open(r.Server, r.Fair)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	var group sync.WaitGroup
	var mu sync.Mutex
	lines := json.NewEncoder(out)
	for t := (turn{Process: r.Number, Goroutine: 1}); ; t.Goroutine++ {
		if _, err := fmt.Fscanln(in, &t.Asked); err != nil {
			break // no more
		}
		group.Go(func() {
			taken, failed := take(ctx, b.locker, t, r.Hold)
			mu.Lock()
			defer mu.Unlock()
			err = errors.Join(err, failed, lines.Encode(taken))
		})
	}
	group.Wait()
	return err
}

// take has the lock once, and writes down when.
func take(ctx context.Context, locker relock.Locker, t turn, hold time.Duration) (turn, error) {
	err := relock.Do(ctx, locker, key, func(context.Context) error {
		t.From = time.Now().UnixNano()
		time.Sleep(hold)
		t.To = time.Now().UnixNano()
		return nil
	})
	return t, err
}
