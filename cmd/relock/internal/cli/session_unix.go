//go:build linux || darwin

package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/relock-go/relock"
)

// session is one relock run, from the start to the release.
type session struct {
	*runner

	stderr  io.Writer
	signals chan os.Signal
	renewed chan struct{} // after renewals
}

// run runs the command under the lock. Its error has the exit code.
func (r *runner) run(stderr io.Writer) (err error) {
	path, err := lookUp(r.command[0])
	if err != nil {
		return err
	}
	if err := adopt(); err != nil { // of a guard that was killed
		return err
	}
	catch(unix.SIGPIPE) // nobody may read what relock says
	s := &session{r, stderr, catch(passed...), make(chan struct{}, 1)}
	client, err := r.connect(stderr, relock.WithObserver(relock.Observer{RenewDone: s.hear}))
	if err != nil {
		return err
	}
	hold, err := s.await(client)
	if err == nil {
		err = s.release(hold, s.under(hold, path))
	}
	if failed := client.Close(); failed != nil {
		say(stderr, failed) // the lock is released, and the command's code counts
	}
	return err
}

// lookUp finds a command before its lock is waited for.
func lookUp(name string) (string, error) {
	path, err := exec.LookPath(name)
	switch {
	case err == nil, errors.Is(err, exec.ErrDot): // a shell would run it too
		return path, nil
	case errors.Is(err, exec.ErrNotFound):
		return "", exit(codeNotFound, err)
	}
	return "", exit(codeOfStart(err), err)
}

// hear notes that the lease was renewed.
func (s *session) hear(_ context.Context, e relock.RenewDone) {
	if e.Err != nil {
		return
	}
	select {
	case s.renewed <- struct{}{}:
	default: // the last one was not looked at yet
	}
}

// await waits for the lock until it is interrupted.
func (s *session) await(client *relock.Client) (relock.Hold, error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	type result struct {
		hold relock.Hold
		err  error
	}
	got := make(chan result, 1)
	go func() {
		hold, err := s.acquire(ctx, client, s.stderr)
		got <- result{hold, err}
	}()
	select {
	case r := <-got:
		return r.hold, r.err
	case sig := <-s.signals:
		cancel()
		err := exit(codeSignal+int(sig.(unix.Signal)), nil)
		if r := <-got; r.err == nil {
			err = s.release(r.hold, err)
		}
		return nil, err
	}
}

// release ends the hold after the command. The command's error counts, unless
// the lock turns out to be lost.
func (s *session) release(hold relock.Hold, ended error) error {
	err := hold.Unlock(context.Background())
	if errors.Is(err, relock.ErrLockLost) {
		return exit(codeLost, err)
	}
	say(s.stderr, err) // not confirmed: the lock is free when its lease ends
	return ended
}

// under runs the command while the lock is held.
func (s *session) under(hold relock.Hold, path string) error {
	g, err := s.startGuard(path, hold)
	if err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() { done <- g.await() }()
	return s.inform(g, hold, done)
}

// inform sends the guard what is new, until it has ended. When the guard has
// something to do it gets its last order again, as one that was stopped
// continues with an order.
func (s *session) inform(g *guarded, hold relock.Hold, done <-chan error) error {
	lose, last := hold.Context().Done(), deadline(hold)
	g.order(last)
	due := time.NewTimer(s.untilDue(hold))
	defer due.Stop()
	for {
		select {
		case err := <-done:
			return err
		case <-lose:
			lose, last = nil, lost
			g.order(last)
		case <-s.renewed:
			if lose != nil {
				last = deadline(hold)
				g.order(last)
			}
		case <-due.C:
			g.order(last)
		case sig := <-s.signals:
			if s.passesOn(sig) {
				g.order(-order(sig.(unix.Signal)))
			}
		}
		due.Reset(s.untilDue(hold))
	}
}

// untilDue returns the time until the guard has to send TERM or KILL, a moment
// later. After both it returns a time in which nothing is due.
func (s *session) untilDue(hold relock.Hold) time.Duration {
	const moment = 10 * time.Millisecond
	left := hold.Remaining() + moment
	for _, before := range []time.Duration{time.Duration(s.grace), s.margin()} {
		if left > before {
			return left - before
		}
	}
	return time.Duration(s.lease)
}

// passesOn reports whether the command needs to get a signal from relock. The
// terminal sends its own ones to the whole group in the foreground.
func (s *session) passesOn(sig os.Signal) bool {
	return !s.foreground || sig != unix.SIGINT && sig != unix.SIGQUIT
}

// deadline returns the time by the boot clock until which the hold is valid.
// That clock is read first: if this process is stopped before it reads the
// other one, the result is too early, but never too late.
func deadline(hold relock.Hold) order {
	now := bootTime()
	return order(now + hold.Remaining())
}

// startGuard starts the guard.
func (s *session) startGuard(path string, hold relock.Hold) (*guarded, error) {
	c := guardConfig{grace: time.Duration(s.grace), margin: s.margin()}
	if s.foreground {
		c.group = unix.Getpgrp()
	}
	g, err := launch(c, append([]string{"relock-guard", path}, s.command...), withEnv(os.Environ(),
		"RELOCK_KEY="+s.key, "RELOCK_FENCE="+s.fence(hold),
		"RELOCK_LEASE_MS="+strconv.FormatInt(time.Duration(s.lease).Milliseconds(), 10)))
	if err != nil {
		return nil, fmt.Errorf("start the guard: %w", err)
	}
	return g, nil
}

// fence returns the fencing token for the command. The token of an outer relock
// must not stand in for that of a semaphore, which has none.
func (s *session) fence(hold relock.Hold) string {
	if s.limited {
		return ""
	}
	return strconv.FormatInt(hold.Fence(), 10)
}
