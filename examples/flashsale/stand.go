package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"time"

	"github.com/relock-go/relock/fence"
	"github.com/relock-go/relock/queue"
)

// stand is one of the processes: its buyers order, and it sells to the first in
// line, which may be the buyer of another process.
type stand struct {
	*shop
	role    role
	events  *json.Encoder
	answers chan struct{} // is closed when the program that started this one ends
}

// work is a whole process. When all its buyers have an answer, it ends.
func work(ctx context.Context, in io.Reader, out io.Writer, text string) (err error) {
	var r role
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		return err
	}
	shop, err := newShop(r)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, shop.client.Close()) }()
	s := &stand{shop: shop, role: r, events: json.NewEncoder(out), answers: make(chan struct{})}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { // ends with the process
		defer cancel()
		defer close(s.answers)
		for lines := bufio.NewScanner(in); lines.Scan(); {
			s.answers <- struct{}{}
		}
	}()
	return s.trade(ctx)
}

// report sends an event. If it has a question, the process waits for the
// answer.
func (s *stand) report(e event) error {
	if err := s.events.Encode(e); err != nil {
		return err
	}
	if e.What == has || e.What == refused {
		return nil
	}
	if _, ok := <-s.answers; !ok {
		return errors.New("the program that started this process has ended")
	}
	return nil
}

// trade queues the orders of the buyers and works on orders, until there are no
// phones left. Then the buyers leave the line.
func (s *stand) trade(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() {
		defer stop()
		done <- s.line.Process(ctx, s.serve,
			queue.WithWorkers(1), queue.WithLocker(s.locker, func(queue.Task) string { return stock }))
	}()
	err := s.everyBuyer(ctx, s.order)
	if err == nil {
		err = s.untilSoldOut(ctx)
	}
	if err == nil {
		err = s.everyBuyer(ctx, s.leave)
	}
	stop()
	return errors.Join(err, <-done)
}

// serve works on one order. One that is repeated, since its process was killed
// or has lost the lock, finds what was done.
func (s *stand) serve(ctx context.Context, d *queue.Delivery) error {
	left, buyers, err := s.count(ctx)
	if err != nil {
		return err
	}
	if n := 1 + slices.Index(buyers, d.ID); n > 0 {
		return s.report(event{What: has, Buyer: d.ID, Phone: n})
	}
	if left == 0 {
		return nil // sold out
	}
	e := event{What: pays, Buyer: d.ID, Phone: phones - left + 1}
	if err := s.report(e); err != nil {
		return err
	}
	if err := s.sell(ctx, d.ID, left-1); err != nil {
		if errors.Is(err, fence.ErrStale) {
			e.What = refused
			err = errors.Join(err, s.report(e))
		}
		return err
	}
	e.What = sold
	return s.report(e)
}

// untilSoldOut waits until no phone is left.
func (s *stand) untilSoldOut(ctx context.Context) error {
	for {
		left, _, err := s.count(ctx)
		if err != nil || left == 0 {
			return err
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
