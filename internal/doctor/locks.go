package doctor

import (
	"context"
	"errors"
	"time"

	"github.com/relock-go/relock"
)

const permissions = "see docs/operations.md, Permissions"

// locks tries a plain lock, which must work.
func (d *doctor) plain(ctx context.Context) {
	err := d.within(ctx, func(ctx context.Context) error {
		// One that cannot be released is free soon.
		lock := relock.NewRedisLock(d.key, d.client, relock.WithExpiry(10*time.Second))
		return lock.Do(ctx, func(context.Context) error { return nil })
	})
	if err != nil {
		d.find("lock", Fail, "the text says what the server refuses", "%v", err)
		return
	}
	d.find("lock", OK, "", "was acquired and released")
}

// messages checks that a waiter is notified of a release. Its lock is fair, so
// that it waits in Redis. The first wait opens the subscription, which may be
// late and then is made up for by a poll. The second one shows its messages.
func (d *doctor) messages(ctx context.Context) {
	took, err := d.handOff(ctx)
	if err == nil && took <= d.Poll/2 {
		took, err = d.handOff(ctx)
	}
	switch {
	case err != nil:
		d.find("waiting", Warn, permissions, "unknown: %v", err)
	case took > d.Poll/2:
		d.find("waiting", Warn, permissions, "a waiter got no message of a release, and found it by a poll")
	default:
		d.find("waiting", OK, "", "a waiter is notified of a release, in %v", took.Round(time.Microsecond))
	}
}

// fair returns the lock that is waited for.
func (d *doctor) fair() *relock.RedisLock {
	return relock.NewRedisLock(d.key+"/fair", d.client, relock.WithFair(), relock.WithBlock(),
		relock.WithPollInterval(d.Poll), relock.WithExpiry(d.Timeout+4*d.Poll))
}

// grant is when a waiter got its lock.
type grant struct {
	at  time.Time
	err error
}

// wait waits for the lock, and releases it. It calls ended at the end.
func (d *doctor) wait(ctx context.Context, ended func()) <-chan grant {
	got := make(chan grant, 1)
	go func() {
		defer ended()
		hold, err := d.fair().Acquire(ctx)
		g := grant{time.Now(), err}
		if err == nil {
			g.err = hold.Unlock(ctx)
		}
		got <- g
	}()
	return got
}

// handOff returns how long a waiter takes to have a lock that is released.
func (d *doctor) handOff(ctx context.Context) (took time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, d.Timeout+4*d.Poll)
	defer cancel()
	hold, err := d.fair().Acquire(ctx)
	if err != nil {
		return 0, err
	}
	waits, ended := context.WithCancel(ctx)
	got := d.wait(ctx, ended)
	err = d.awaitWaiter(waits)
	released := time.Now()
	if failed := hold.Unlock(context.WithoutCancel(ctx)); err == nil {
		err = failed
	}
	if err != nil {
		cancel()
	}
	g := <-got
	if g.err != nil && !errors.Is(g.err, context.Canceled) {
		err = g.err // it is the cause
	}
	return g.at.Sub(released), err
}

// awaitWaiter waits until the waiter is in the queue.
func (d *doctor) awaitWaiter(ctx context.Context) error {
	err := d.within(ctx, func(ctx context.Context) error {
		for {
			i, err := d.client.Inspect(ctx, d.key+"/fair")
			if err != nil || i.Waiting > 0 {
				return err
			}
			time.Sleep(10 * time.Millisecond)
		}
	})
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return errors.New("a waiter cannot queue")
	}
	return err
}
