package queue_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/test/faults"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
	"github.com/relock-go/relock/queue"
)

// messageFaults is what may happen to a request or its answer.
var messageFaults = map[string]faults.Action{
	"request lost":            faults.DropRequest,
	"request late":            faults.HoldOnly,
	"request late, cut":       faults.HoldAndCut,
	"request doubled":         faults.Double,
	"request doubled, late":   faults.Hold,
	"answer lost":             faults.DropAnswer,
	"answer late":             faults.Delay(2 * faultTimeout),
	"answer doubled":          faults.DoubleAnswer,
	"cut before the request":  faults.CutBefore,
	"cut in the request":      faults.CutInRequest,
	"cut in the answer":       faults.CutInAnswer,
	"cut instead of answer":   faults.CutAfter,
	"reset in the answer":     faults.ResetInAnswer,
	"error line":              faults.ErrorLine("LOADING soon"),
	"executed, an error line": faults.ExecuteThenError("LOADING soon"),
	"executed, a proxy's":     faults.ExecuteThenError("upstream failure"),
	"a proxy's error line":    faults.ErrorLine("upstream failure"),
	"request byte by byte":    faults.SlowRequest(faultTimeout / 3),
	"answer byte by byte":     faults.SlowAnswer(faultTimeout / 3),
}

// faultTimeout is the command timeout of the client that meets a fault.
const faultTimeout = 200 * time.Millisecond

// faultCell is a queue whose client meets a fault, and one that does not.
type faultCell struct {
	testing.TB
	proxy  *faults.Proxy
	q      *queue.Queue // behind the proxy
	other  *queue.Queue
	well   *relock.Client // of the other one
	action faults.Action
	seen   <-chan struct{}
}

// meets makes the next call of the script meet the fault.
func (c *faultCell) meets(s *script.TaskScript) {
	c.meetsIf(faults.Script(s.SHA))
}

func (c *faultCell) meetsIf(match faults.Match) { c.seen = c.proxy.On(match, 1, c.action) }

// late lets the server execute what the proxy has kept.
func (c *faultCell) late() {
	c.Helper()
	testkit.Next(c, c.seen, "the fault did not happen")
	c.proxy.Release()
}

// receive receives one task through the proxy, whose client has little time.
func (c *faultCell) receive(id string) *queue.Delivery {
	c.Helper()
	var got []*queue.Delivery
	testkit.Eventually(c, testkit.Patience, func() bool {
		var err error
		got, err = c.q.Receive(c.Context(), 1)
		c.temporary(err)
		return err == nil
	}, "it is received")
	require.Equal(c, id, got[0].ID)
	return got[0]
}

func (c *faultCell) temporary(err error) {
	c.Helper()
	require.True(c, err == nil || relock.IsRetryableErr(err) || errors.Is(err, relock.ErrUnconfirmed), "%v", err)
}

func each(t *testing.T, run func(c *faultCell), opts ...queue.Option) {
	s := redistest.StartTCP(t)
	for _, one := range []*script.TaskScript{
		script.TaskEnqueue, script.TaskPut, script.TaskReceive, script.TaskSettle, script.TaskRenew, script.TaskRemove,
		script.TaskRequeue,
		script.TaskStats, script.TaskDead, script.TaskGate, script.TaskPause,
		script.TaskRequeueDied, script.TaskGet, script.TaskList,
	} {
		s.Do(t, "SCRIPT", "LOAD", one.Source)
	}
	for name, action := range messageFaults {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := faults.Start(t, s.Network, s.Address)
			behind := &redistest.Server{Network: p.Network, Address: p.Address}
			other := newClient(t, s)
			c := newClient
			if rand.N(2) == 0 {
				t.Log("one of two servers")
				c = func(t testing.TB, behind *redistest.Server, opts ...relock.ClientOption) *relock.Client {
					return locktest.Routed(t, behind, s, append(opts, relock.WithKeyPrefix(locktest.Prefix(other)))...)
				}
			}
			q := queueOf(t, c(t, behind, relock.WithCommandTimeout(faultTimeout)), opts...)
			run(&faultCell{TB: t, proxy: p, q: q, other: queueOf(t, other, opts...), well: other, action: action})
		})
	}
}

// A task is queued once, or its Enqueue says that it may not be.
func TestFaultsOfEnqueue(t *testing.T) {
	t.Parallel()
	for key, script := range map[string]*script.TaskScript{"": script.TaskPut, "k": script.TaskEnqueue} {
		t.Run("key "+key, func(t *testing.T) { testFaultsOfEnqueue(t, queue.Task{ID: "a", Key: key}, script) })
	}
}

func testFaultsOfEnqueue(t *testing.T, task queue.Task, script *script.TaskScript) {
	each(t, func(c *faultCell) {
		c.meets(script)
		err := put(c.Context(), c.q, task)
		c.temporary(err)
		if err != nil {
			if err = put(c.Context(), c.other, task); err != nil {
				require.ErrorIs(c, err, queue.ErrDuplicate)
			}
		}
		d := receive(c, c.other, "a")
		c.late()
		none(c, c.other)
		require.NoError(c, d.Ack(c.Context()))
		none(c, c.other)
	})
}

// A task whose receive met a fault is received soon, by its caller or by
// others, as the first attempt. No copy takes it a second time.
func TestFaultsOfReceive(t *testing.T) {
	t.Parallel()
	each(t, func(c *faultCell) {
		enqueue(c, c.other, "k", "a", "behind")
		c.meets(script.TaskReceive)
		ctx, cancel := context.WithTimeout(c.Context(), testkit.Patience)
		defer cancel()
		got, err := c.q.Receive(ctx, 1)
		c.temporary(err)
		if err != nil {
			got = []*queue.Delivery{receive(c, c.other, "a")}
		}
		require.Equal(c, "a", got[0].ID)
		require.Equal(c, 1, got[0].Attempt)
		enqueue(c, c.other, "", "free")
		c.late()
		free := receive(c, c.other, "free")
		require.Equal(c, 1, free.Attempt)
		require.NoError(c, free.Ack(c.Context()))
		none(c, c.other)
		require.NoError(c, got[0].Err())
		c.temporary(got[0].Ack(c.Context()))
		require.NoError(c, receive(c, c.other, "behind").Ack(c.Context()))
	})
}

// The deliveries of a process go on while its receives meet faults.
func TestFaultsOfReceiveBesideDeliveries(t *testing.T) {
	each(t, func(c *faultCell) {
		enqueue(c, c.other, "", "first")
		goOn := make(chan struct{})
		done := make(chan error, 10)
		stop := processing(c, c.q, func(_ context.Context, d *queue.Delivery) error {
			if d.ID == "first" {
				<-goOn
			}
			if d.Attempt > 1 {
				done <- fmt.Errorf("%s: attempt %d", d.ID, d.Attempt)
			}
			done <- d.Err()
			return nil
		}, queue.WithWorkers(3))
		eventually(c, c.other, "the first is in work", func(s queue.Stats) bool { return s.InFlight == 1 && s.Idle == 1 })
		c.meets(script.TaskReceive)
		enqueue(c, c.other, "", "second")
		c.late()
		err := testkit.Next(c, done)
		require.NoError(c, err)
		eventually(c, c.other, "the first goes on", func(s queue.Stats) bool { return s.InFlight == 1 && s.Ready == 0 })
		close(goOn)
		require.NoError(c, <-done)
		eventually(c, c.other, "all are done", isEmpty)
		require.NoError(c, stop())
		require.Empty(c, done)
	})
}

// A caller that leaves returns what it did not learn of, though another caller
// of its queue is busy.
func TestReceiveLeavesBesideOthers(t *testing.T) {
	s := redistest.StartTCP(t)
	s.Do(t, "SCRIPT", "LOAD", script.TaskReceive.Source)
	p := faults.Start(t, s.Network, s.Address)
	lease := queue.WithLease(time.Hour) // it does not end in the test
	q := queueOf(t, newClient(t, &redistest.Server{Network: p.Network, Address: p.Address}), lease)
	other := newQueue(t, s, lease)
	enqueue(t, other, "", "first")
	goOn, began := make(chan struct{}), make(chan struct{})
	stop := processing(t, q, func(context.Context, *queue.Delivery) error {
		close(began)
		<-goOn
		return nil
	}, queue.WithWorkers(1))
	finish := sync.OnceFunc(func() { close(goOn) })
	t.Cleanup(finish)
	testkit.Next(t, began)
	enqueue(t, other, "", "second")
	seen := p.On(faults.Script(script.TaskReceive.SHA), 1, faults.DropAnswer)
	ctx, cancel := context.WithCancel(t.Context())
	result := testkit.Async(t, func() error {
		_, err := q.Receive(ctx, 1)
		return err
	})
	testkit.Next(t, seen)
	eventually(t, other, "it was taken", func(s queue.Stats) bool { return s.InFlight == 2 })
	cancel()
	require.ErrorIs(t, testkit.ResultWithin(t, result, testkit.Patience), context.Canceled)
	d := receive(t, other, "second")
	require.Equal(t, 1, d.Attempt)
	require.NoError(t, d.Ack(t.Context()))
	finish()
	require.NoError(t, stop())
}

// Process asks a server that is away ever more rarely, also without a
// subscription.
func TestProcessBacksOff(t *testing.T) {
	s := redistest.StartTCP(t)
	s.Do(t, "SCRIPT", "LOAD", script.TaskReceive.Source)
	p := faults.Start(t, s.Network, s.Address)
	q := queueOf(t, newClient(t, &redistest.Server{Network: p.Network, Address: p.Address}))
	p.On(func(args []string) bool { return args[0] == "SUBSCRIBE" }, 1, faults.DropRequest)
	const refused = 6
	var last <-chan struct{}
	for i := range refused {
		last = p.On(faults.Script(script.TaskReceive.SHA), i+1, faults.ErrorLine("LOADING soon"))
	}
	start := time.Now()
	stop := processing(t, q, func(context.Context, *queue.Delivery) error { return nil })
	testkit.Next(t, last)
	require.GreaterOrEqual(t, time.Since(start), (20+40+80+160+320)*time.Millisecond)
	require.NoError(t, stop())
}

// A receive that is sent again after a break is not taken for a missing
// permission. Its answer does not say what is due, so another one follows.
func TestReceiveSentAgain(t *testing.T) {
	s := redistest.StartTCP(t)
	s.Do(t, "SCRIPT", "LOAD", script.TaskReceive.Source)
	p := faults.Start(t, s.Network, s.Address)
	var log locktest.LogBuffer
	c := newClient(t, &redistest.Server{Network: p.Network, Address: p.Address}, log.Option())
	q := queueOf(t, c)
	receives := faults.Script(script.TaskReceive.SHA)
	p.On(receives, 1, faults.CutAfter)
	none(t, q)
	require.Equal(t, 3, p.Count(receives), "two copies, and another one")

	heartbeats := func(args []string) bool { return receives(args) && args[len(args)-5] == "1" }
	ctx, cancel := context.WithCancel(t.Context())
	result := testkit.Async(t, func() error {
		_, err := q.Receive(ctx, 1)
		return err
	})
	require.True(t, p.Await(heartbeats, 1, testkit.Patience))
	p.On(heartbeats, 1, faults.CutAfter) // a second later, when the subscription is up
	require.True(t, p.Await(heartbeats, 4, testkit.Patience))
	cancel()
	require.ErrorIs(t, testkit.ResultWithin(t, result, testkit.Patience), context.Canceled)
	require.NotContains(t, log.String(), "permission")
}

// A settle takes effect, and no late copy of it has one on the next delivery.
func TestFaultsOfSettles(t *testing.T) {
	t.Parallel()
	for name, settle := range map[string]func(context.Context, *queue.Delivery) error{
		"Ack":        func(ctx context.Context, d *queue.Delivery) error { return d.Ack(ctx) },
		"Nack":       func(ctx context.Context, d *queue.Delivery) error { return d.Nack(ctx, 0, nil) },
		"Release":    func(ctx context.Context, d *queue.Delivery) error { return d.Release(ctx) },
		"DeadLetter": func(ctx context.Context, d *queue.Delivery) error { return d.DeadLetter(ctx, nil) },
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(c *faultCell) {
				enqueue(c, c.other, "k", "a", "behind")
				d := c.receive("a")
				c.meets(script.TaskSettle)
				err := settle(c.Context(), d)
				c.temporary(err)
				eventually(c, c.other, "it is settled", func(s queue.Stats) bool { return s.InFlight == 0 })
				next := "behind"
				if name == "Nack" || name == "Release" {
					next = "a"
				}
				again := receive(c, c.other, next)
				if name == "Nack" {
					require.Equal(c, 2, again.Attempt)
				} else {
					require.Equal(c, 1, again.Attempt)
				}
				c.late()
				none(c, c.other)
				require.NoError(c, again.Err())
				require.NoError(c, again.Ack(c.Context()))
			})
		})
	}
}

// Settles that share a script take effect, each once.
func TestFaultsOfSettlesTogether(t *testing.T) {
	each(t, func(c *faultCell) {
		const n = 20
		for i := range n {
			enqueue(c, c.other, fmt.Sprint(i%4), fmt.Sprint(i))
		}
		var began sync.WaitGroup
		began.Add(4) // one of each key
		var runs atomic.Int64
		c.meets(script.TaskSettle)
		stop := processing(c, c.q, func(_ context.Context, d *queue.Delivery) error {
			if runs.Add(1) <= 4 {
				began.Done()
				began.Wait()
			}
			if d.Attempt > 1 {
				runs.Add(1000)
			}
			return nil
		}, queue.WithWorkers(n))
		eventually(c, c.other, "all are done", isEmpty)
		c.late()
		require.NoError(c, stop())
		require.Equal(c, int64(n), runs.Load())
	}, queue.WithLease(time.Hour))
}

// A lease is renewed whatever becomes of one renewal.
func TestFaultsOfRenewals(t *testing.T) {
	each(t, func(c *faultCell) {
		enqueue(c, c.other, "", "a")
		d := c.receive("a")
		c.meets(script.TaskRenew)
		d.RenewNow()
		testkit.Next(c, c.seen)
		renewals := faults.Script(script.TaskRenew.SHA)
		require.True(c, c.proxy.Await(renewals, 3, testkit.Patience))
		require.NoError(c, d.Err())
		c.late()
		none(c, c.other)
		c.temporary(d.Ack(c.Context()))
		eventually(c, c.other, "it is settled", isEmpty)
		c.late()
		none(c, c.other)
	}, queue.WithLease(3*time.Second))
}
