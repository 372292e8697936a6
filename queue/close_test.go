package queue_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/test/faults"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
	"github.com/relock-go/relock/queue"
)

// ending is a call that is ended at one step.
type ending struct {
	testing.TB
	proxy  *faults.Proxy
	q      *queue.Queue // behind the proxy
	other  *queue.Queue
	ctx    context.Context
	end    func() // cancels ctx, or closes the client
	closes bool
}

// slow makes the next call of a script take long, and returns when the server
// has it.
func (e *ending) slow(s *script.TaskScript) (arrived func()) {
	match := faults.Script(s.SHA)
	n := e.proxy.Count(match)
	e.proxy.On(match, 1, faults.Delay(300*time.Millisecond))
	return func() {
		e.Helper()
		require.True(e, e.proxy.Await(match, n+1, testkit.Patience))
	}
}

// async runs a call, and returns its result once ended was called.
func (e *ending) async(f func() error) (ended func() error) {
	result := testkit.Async(e, f)
	return func() error {
		e.Helper()
		clock := testkit.NewStopwatch(e)
		e.end()
		err := testkit.ResultWithin(e, result, testkit.Patience)
		clock.Within(500*time.Millisecond, "a message takes 300 ms")
		return err
	}
}

// stopped requires that a call has ended with the client, or with its context.
func (e *ending) stopped(err error) {
	e.Helper()
	if e.closes {
		require.ErrorIs(e, err, relock.ErrClosed)
		return
	}
	require.ErrorIs(e, err, context.Canceled)
}

// endings are the steps. Each leaves the task "a" to be done, or has done it.
var endings = map[string]func(e *ending) (done bool){
	"before enqueue": func(e *ending) bool {
		e.end()
		e.stopped(put(e.ctx, e.q, queue.Task{ID: "a"}))
		enqueue(e, e.other, "", "a")
		return false
	},
	"enqueueing": func(e *ending) bool {
		arrived := e.slow(script.TaskPut)
		ended := e.async(func() error { return put(e.ctx, e.q, queue.Task{ID: "a"}) })
		arrived()
		err := ended()
		e.stopped(err)
		require.ErrorIs(e, err, relock.ErrUnconfirmed)
		if err = put(e.Context(), e.other, queue.Task{ID: "a"}); err != nil {
			require.ErrorIs(e, err, queue.ErrDuplicate)
		}
		return false
	},
	"after enqueue": func(e *ending) bool {
		require.NoError(e, put(e.ctx, e.q, queue.Task{ID: "a"}))
		e.end()
		return false
	},
	"receive waits": func(e *ending) bool {
		ended := e.async(func() error {
			_, err := e.q.Receive(e.ctx, 1)
			return err
		})
		eventually(e, e.other, "it waits", func(s queue.Stats) bool { return s.Idle == 1 })
		e.stopped(ended())
		enqueue(e, e.other, "", "a")
		return false
	},
	"receiving": func(e *ending) bool {
		enqueue(e, e.other, "", "a")
		arrived := e.slow(script.TaskReceive)
		ended := e.async(func() error {
			_, err := e.q.Receive(e.ctx, 1)
			return err
		})
		arrived()
		e.stopped(ended())
		return false
	},
	"in flight": func(e *ending) bool {
		enqueue(e, e.other, "", "a")
		d := receive(e, e.q, "a")
		e.end()
		if e.closes {
			require.ErrorIs(e, testkit.EndedWithin(e, d.Context(), testkit.Patience), relock.ErrClosed)
			require.ErrorIs(e, d.Err(), relock.ErrClosed)
			require.ErrorIs(e, d.Ack(e.ctx), relock.ErrClosed)
			return false
		}
		require.NoError(e, d.Err())
		require.NoError(e, d.Ack(e.ctx), "an Ack works though its context is cancelled")
		return true
	},
	"acking":          settling(func(e *ending, d *queue.Delivery) error { return d.Ack(e.ctx) }, true),
	"nacking":         settling(func(e *ending, d *queue.Delivery) error { return d.Nack(e.ctx, 0, nil) }, false),
	"releasing":       settling(func(e *ending, d *queue.Delivery) error { return d.Release(e.ctx) }, false),
	"dead-lettering":  settling(func(e *ending, d *queue.Delivery) error { return d.DeadLetter(e.ctx, nil) }, true),
	"process is idle": working(nil),
	"running": working(func(ctx context.Context, _ *queue.Delivery) error {
		<-ctx.Done()
		return context.Cause(ctx)
	}),
	"backing off": func(e *ending) bool {
		ended := e.async(func() error {
			return e.q.Process(e.ctx, func(context.Context, *queue.Delivery) error {
				return errors.New("fails")
			})
		})
		enqueue(e, e.other, "", "a")
		eventually(e, e.other, "it waits for its next attempt", func(s queue.Stats) bool { return s.Delayed == 1 })
		e.processed(ended())
		return false
	},
	"the server is away":            away("LOADING soon"),
	"the server of a proxy is away": away("upstream failure"),
}

// away answers each receive with an error line that passes.
func away(line string) func(e *ending) bool {
	return func(e *ending) bool {
		e.proxy.On(faults.Script(script.TaskReceive.SHA), faults.Every, faults.ErrorLine(line))
		ended := e.async(func() error {
			return e.q.Process(e.ctx, func(context.Context, *queue.Delivery) error { return nil })
		})
		require.True(e, e.proxy.Await(faults.Script(script.TaskReceive.SHA), 3, testkit.Patience))
		e.processed(ended())
		enqueue(e, e.other, "", "a")
		return false
	}
}

// processed requires that Process has ended: without an error if its context
// was cancelled.
func (e *ending) processed(err error) {
	e.Helper()
	if e.closes {
		require.ErrorIs(e, err, relock.ErrClosed)
		return
	}
	require.NoError(e, err)
}

// settling ends a settle under way. Cancellation has no effect on it. After
// Close, it is confirmed or its task is attempted again.
func settling(settle func(*ending, *queue.Delivery) error, done bool) func(*ending) bool {
	return func(e *ending) bool {
		enqueue(e, e.other, "", "a")
		d := receive(e, e.q, "a")
		arrived := e.slow(script.TaskSettle)
		ended := e.async(func() error { return settle(e, d) })
		arrived()
		if err := ended(); e.closes {
			require.True(e, err == nil || errors.Is(err, relock.ErrClosed), "%v", err)
		} else {
			require.NoError(e, err)
		}
		return done // the server has executed it
	}
}

// working ends Process while it is idle, or while its function runs.
func working(fn func(context.Context, *queue.Delivery) error) func(*ending) bool {
	return func(e *ending) bool {
		ended := e.async(func() error {
			if fn == nil {
				return e.q.Process(e.ctx, func(context.Context, *queue.Delivery) error { return nil })
			}
			return e.q.Process(e.ctx, fn, queue.WithGrace(50*time.Millisecond))
		})
		eventually(e, e.other, "it is idle", func(s queue.Stats) bool { return s.Idle == 1 })
		if fn != nil {
			enqueue(e, e.other, "", "a")
			eventually(e, e.other, "it runs", func(s queue.Stats) bool { return s.InFlight == 1 })
		}
		e.processed(ended())
		if fn == nil {
			enqueue(e, e.other, "", "a")
		}
		return false
	}
}

// Cancellation and Close at each step end the call, lose no task and leave no
// receiver that counts as idle. TestMain checks that no goroutine is left.
func TestEndAtEachStep(t *testing.T) {
	s := redistest.StartTCP(t)
	for _, one := range []*script.TaskScript{script.TaskPut, script.TaskReceive, script.TaskSettle} {
		s.Do(t, "SCRIPT", "LOAD", one.Source)
	}
	for how, closes := range map[string]bool{"cancelled": false, "closed": true} {
		for name, step := range endings {
			t.Run(name+", "+how, func(t *testing.T) {
				t.Parallel()
				p := faults.Start(t, s.Network, s.Address)
				c := newClient(t, &redistest.Server{Network: p.Network, Address: p.Address})
				e := &ending{TB: t, proxy: p, q: queueOf(t, c), other: newQueue(t, s), closes: closes}
				var cancel context.CancelFunc
				e.ctx, cancel = context.WithCancel(t.Context())
				defer cancel()
				e.end = cancel
				if closes {
					e.end = func() { require.NoError(t, c.Close()) }
				}
				done := step(e)
				if !done {
					require.NoError(t, receiveEnded(t, s, e.other, "a").Ack(t.Context()))
				}
				eventually(t, e.other,
					"all is done, and nobody idle", func(s queue.Stats) bool { return isEmpty(s) && s.Idle == 0 })
			})
		}
	}
}
