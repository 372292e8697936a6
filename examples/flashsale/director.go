package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"sync"
	"time"
)

// payment is how long a payment takes.
const payment = 20 * time.Millisecond

// director runs the processes, is the bank that they wait for, and causes the
// accidents.
type director struct {
	role    role
	log     *log.Logger
	events  chan event
	started time.Time
	running int                 // processes
	todo    map[moment]accident // that have not happened
	frozen  *event              // that its process has reported
}

func newDirector(out io.Writer, r role) *director {
	return &director{role: r, log: log.New(out, "", 0), started: time.Now(), events: make(chan event), todo: accidents()}
}

// say prints what happens, and when.
func (d *director) say(format string, args ...any) {
	d.log.Printf("%6.2fs  %s", time.Since(d.started).Seconds(), fmt.Sprintf(format, args...))
}

// direct holds the sale, and takes stock meanwhile.
func (d *director) direct(ctx context.Context, s *shop) error {
	ctx, cancel := context.WithCancel(ctx)
	var group sync.WaitGroup
	var counted error
	group.Go(func() { counted = takeStock(ctx, s, d.say) })
	err := d.follow(ctx, cancel)
	cancel()
	group.Wait()
	return errors.Join(err, counted)
}

// follow starts the processes and reads what they report, until the last one
// has ended. After an error it kills them.
func (d *director) follow(ctx context.Context, kill context.CancelFunc) (failed error) {
	for d.role.Number = range processes {
		failed = errors.Join(failed, d.start(ctx, d.role))
	}
	for d.running > 0 {
		if failed != nil {
			kill()
		}
		if err := d.hear(ctx, <-d.events); failed == nil {
			failed = err
		}
	}
	if failed == nil {
		failed = ctx.Err()
	}
	return failed
}

func (d *director) start(ctx context.Context, r role) error {
	err := start(ctx, r, d.events)
	if err == nil {
		d.running++
	}
	return err
}

// hear handles an event.
func (d *director) hear(ctx context.Context, e event) error {
	d.describe(e)
	if err := d.thaw(e); err != nil {
		return err
	}
	if accident := d.todo[moment{e.What, e.Phone}]; accident != nil {
		delete(d.todo, moment{e.What, e.Phone})
		return accident(d, e)
	}
	switch e.What {
	case pays:
		time.Sleep(payment)
		e.from.answer()
	case sold:
		e.from.answer()
	case ended:
		return d.ended(ctx, e)
	}
	return nil
}

// describe prints an event.
func (d *director) describe(e event) {
	text := map[string]string{
		pays:    "%s pays for phone %d",
		sold:    "%s has phone %d",
		has:     "%s has phone %d already",
		refused: "%s does not get phone %d here, since the fencing token is stale",
	}[e.What]
	if text != "" {
		d.say("process %d: "+text, e.from.role.Number+1, e.Buyer, e.Phone)
	}
	if e.What == sold && e.Phone == phones {
		d.say("Sold out: all others leave the line.")
	}
}

// ended starts a process that was killed again, with all its buyers.
func (d *director) ended(ctx context.Context, e event) error {
	d.running--
	switch {
	case ctx.Err() != nil:
		return nil // all are killed
	case e.from.killed:
		return d.start(ctx, e.from.role)
	}
	return e.err
}
