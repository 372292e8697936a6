package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/faults"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
	"github.com/relock-go/relock/queue"
)

// What each process of the picture does in a tick, which is a second unless the
// run is a short one.
const (
	orders       = 6
	callsOfTick  = 20
	tasksOfTick  = 10
	leaseTicks   = 5 // of locks and deliveries
	patientTicks = 2 // a call waits for a lock
)

// worker is a process of the picture: it takes the locks of a few orders, for
// calls and for tasks of the same orders.
type worker struct {
	*service
	tick   time.Duration
	mu     sync.Mutex
	failed error // the first one that note keeps
}

// serve is the role of the processes. "hang" makes it keep the lock of the
// first order until its end.
func serve(self *faults.Self) error {
	tick, err := time.ParseDuration(self.Args[1])
	if err != nil {
		return err
	}
	w := &worker{tick: tick}
	w.service, err = newService("unix://"+self.Args[0], queue.WithLease(leaseTicks*tick), queue.WithMaxAttempts(1000))
	if err != nil {
		return err
	}
	defer w.close()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	go func() { _ = http.Serve(listener, w.handler) }() // until the process ends
	self.Emit("serves", listener.Addr())
	return w.work(self.Commands)
}

// work works until there are no more commands.
func (w *worker) work(commands <-chan string) error {
	ctx, stop := context.WithCancel(context.Background())
	var group sync.WaitGroup
	group.Go(func() { w.each(ctx, w.tick/callsOfTick, func() { _ = w.order(ctx, anOrder()) }) })
	group.Go(func() { w.each(ctx, w.tick/tasksOfTick, func() { w.note(w.send(ctx)) }) })
	group.Go(func() {
		w.note(w.mails.Process(ctx, w.Process(w.mails, func(ctx context.Context, d *queue.Delivery) error {
			return w.order(ctx, d.Key)
		})))
	})
	for range commands {
		group.Go(func() { w.note(w.hang(ctx)) })
	}
	stop()
	group.Wait()
	return w.failed
}

// each calls f once per interval, whether or not earlier calls have returned.
func (w *worker) each(ctx context.Context, interval time.Duration, f func()) {
	var group sync.WaitGroup
	defer group.Wait()
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			group.Go(f)
		case <-ctx.Done():
			return
		}
	}
}

func anOrder() string { return orderKey(rand.IntN(orders)) }

func orderKey(i int) string { return fmt.Sprint("order/", i) }

// hang keeps the lock of the first order until ctx is cancelled.
func (w *worker) hang(ctx context.Context) error {
	return w.lock(orderKey(0), relock.WithBlock()).Do(ctx, func(ctx context.Context) error {
		<-ctx.Done()
		return nil
	})
}

func (w *worker) lock(key string, wait relock.LockOption) *relock.RedisLock {
	return relock.NewRedisLock(key, w.client, wait, relock.WithWatchdog(leaseTicks*w.tick))
}

// order works on an order, for 40 ms of a tick of a second on average.
func (w *worker) order(ctx context.Context, key string) error {
	err := w.lock(key, relock.WithBlockTimeout(patientTicks*w.tick)).Do(ctx, func(context.Context) error {
		time.Sleep(w.tick/50 + rand.N(w.tick/25)) // the work
		return nil
	})
	w.note(err)
	return err
}

func (w *worker) send(ctx context.Context) error {
	_, err := w.Enqueue(ctx, w.mails, queue.Task{Key: anOrder()})
	return err
}

// note keeps the first error that neither contention, load nor the end of the
// run explains.
func (w *worker) note(err error) {
	switch relock.OutcomeOf(err) {
	case relock.OutcomeDenied, relock.OutcomeInvalid, relock.OutcomeClosed, relock.OutcomeOther:
	default:
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.failed == nil {
		w.failed = err
	}
}

// incident is a run of several processes, of which the first one hangs, is
// killed, and is replaced: each after so many ticks.
type incident struct {
	tick                          time.Duration
	hangs, killed, replaced, ends int
}

// process is one that serves its metrics.
type process struct {
	*faults.Child
	address string
}

func (r incident) start(t *testing.T, server *redistest.Server) process {
	t.Helper()
	child := faults.Spawn(t, "serve", server.Address, r.tick.String())
	return process{child, child.Next("serves", testkit.Patience).Values[0]}
}

// record returns what was scraped at each tick.
func (r incident) record(t *testing.T) (history []scrape) {
	t.Helper()
	defer http.DefaultClient.CloseIdleConnections()
	server := redistest.Start(t)
	var all []process
	for range processes {
		all = append(all, r.start(t, server))
	}
	ticker := time.NewTicker(r.tick)
	defer ticker.Stop()
	began := <-ticker.C
	for i := range r.ends {
		switch i {
		case r.hangs:
			all[0].Send("hang")
		case r.killed:
			all[0].Kill()
			all = all[1:]
		case r.replaced:
			all = append(all, r.start(t, server))
		}
		history = append(history, scrape{time.Since(began), scrapeAll(t, all)})
		<-ticker.C
	}
	for _, one := range all {
		one.End(testkit.Patience)
	}
	return history
}

// scrapeAll asks each process, and adds the label that Prometheus adds.
func scrapeAll(t *testing.T, processes []process) (all []sample) {
	t.Helper()
	for _, one := range processes {
		answer, err := http.Get("http://" + one.address)
		require.NoError(t, err)
		samples, err := parse(answer.Body)
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		for _, s := range samples {
			s.labels["instance"] = one.address
		}
		all = append(all, samples...)
	}
	return all
}
