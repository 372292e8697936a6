package proof

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/faults"
)

// losers are holds, each on a separate client, whose ends are observed.
type losers struct {
	self    *faults.Self
	lease   time.Duration
	clients []*relock.Client
	holds   []relock.Hold
	ended   []atomic.Int64 // when the context of a hold was seen to be over, for the first time
	asked   []int64        // before the last call of a hold's Err that returned nil
}

// losersRole takes locks and reports when they are lost. Arguments: network,
// address, lease in ms, number of locks, number of goroutines that spin on the
// only processor.
func losersRole(self *faults.Self) error {
	lease, _ := strconv.Atoi(self.Args[2])
	count, _ := strconv.Atoi(self.Args[3])
	spinners, _ := strconv.Atoi(self.Args[4])
	l := &losers{self: self, lease: time.Duration(lease) * time.Millisecond}
	if err := l.acquire(count); err != nil {
		return err
	}
	l.asked = make([]int64, count)
	for i := range l.holds {
		l.ask(i)
	}
	if spinners > 0 {
		runtime.GOMAXPROCS(1)
	}
	var over atomic.Bool
	var group sync.WaitGroup
	group.Go(func() {
		watchTimers(&over, func(due time.Time) { self.Emit("late", faults.Stamp(due), faults.Now()) })
	})
	contexts := l.contexts()
	for range spinners {
		group.Go(func() {
			for !over.Load() {
				l.see(contexts)
			}
		})
	}
	l.watch(contexts)
	over.Store(true)
	group.Wait()
	self.Emit("over")
	return l.close()
}

// acquire takes all locks in parallel. Some of the answers are late.
func (l *losers) acquire(count int) error {
	l.clients, l.holds = make([]*relock.Client, count), make([]relock.Hold, count)
	return faults.Together(count, func(i int) (err error) {
		if l.clients[i], err = newProcessClient(l.self.Args[0], l.self.Args[1]); err != nil {
			return err
		}
		lock := newLockOf(lossKind(i), lossKey(i), l.clients[i], relock.WithWatchdog(l.lease))
		l.holds[i], err = lock.Acquire(context.Background())
		return err
	})
}

func (l *losers) contexts() []context.Context {
	l.ended = make([]atomic.Int64, len(l.holds))
	contexts := make([]context.Context, len(l.holds))
	for i, hold := range l.holds {
		contexts[i] = hold.Context()
	}
	return contexts
}

// see records which contexts are cancelled. The spinning goroutines call it
// too: one of them always runs, while a goroutine that waits for a context may
// not run for seconds.
func (l *losers) see(contexts []context.Context) {
	for i, ctx := range contexts {
		if l.ended[i].Load() == 0 && ctx.Err() != nil {
			l.ended[i].CompareAndSwap(0, faults.Now())
		}
	}
}

func (l *losers) watch(contexts []context.Context) {
	var group sync.WaitGroup
	for i := range l.holds {
		group.Go(func() {
			<-contexts[i].Done()
			l.ended[i].CompareAndSwap(0, faults.Now())
			l.self.Emit("context", i, l.ended[i].Load(), errors.Is(context.Cause(contexts[i]), relock.ErrLockLost))
		})
		if asksErr(i) {
			group.Go(func() {
				for l.ask(i) {
					time.Sleep(time.Millisecond)
				}
				l.self.Emit("err", i, l.asked[i], errors.Is(l.holds[i].Err(), relock.ErrLockLost))
			})
		}
	}
	group.Wait()
}

// ask asks a hold for its Err once, and reports whether the hold is valid.
func (l *losers) ask(i int) bool {
	now := faults.Now()
	if l.holds[i].Err() != nil {
		return false
	}
	l.asked[i] = now
	return true
}

// timerPeriod is how often a timer of a process is looked at.
const timerPeriod = 5 * time.Millisecond

// watchTimers reports late timers. It uses the same chain as a lease: a timer,
// a context, and a goroutine that waits for it.
func watchTimers(over *atomic.Bool, report func(due time.Time)) {
	for !over.Load() {
		due := time.Now().Add(timerPeriod)
		ctx, cancel := context.WithDeadline(context.Background(), due)
		<-ctx.Done()
		cancel()
		if time.Since(due) > time.Millisecond {
			report(due)
		}
	}
}

func (l *losers) close() error {
	var errs []error
	for _, client := range l.clients {
		errs = append(errs, client.Close())
	}
	return errors.Join(errs...)
}

func lossKey(i int) string { return fmt.Sprintf("lost-%d", i) }
