package proof

import (
	"context"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/faults"
)

func init() { roles["greedy"] = withClient(greedyRole) }

// ledger records for how long each process has held the lock, in a file that
// processes share. The holder updates it. A hand-off between goroutines of the
// same process counts as held, one between processes does not.
type ledger struct {
	owner  int64 // the process that had it last
	until  int64 // then
	held   [greedyProcesses]int64
	grants [greedyProcesses]int64
}

const greedyProcesses = 4

// total returns how many grants there were.
func (l *ledger) total() (n int64) {
	for process := range l.grants {
		n += atomic.LoadInt64(&l.grants[process])
	}
	return n
}

// begins and ends are called by the holder.
func (l *ledger) begins(process int64) (now int64) {
	now = faults.Now()
	atomic.AddInt64(&l.grants[process], 1)
	if atomic.LoadInt64(&l.owner) == process {
		atomic.AddInt64(&l.held[process], now-atomic.LoadInt64(&l.until))
	}
	return now
}

func (l *ledger) ends(process, begun int64) {
	now := faults.Now()
	atomic.AddInt64(&l.held[process], now-begun)
	atomic.StoreInt64(&l.owner, process)
	atomic.StoreInt64(&l.until, now)
}

// greedyRole has goroutines that take one lock repeatedly until the test ends
// it. Arguments: network, address, kind, ledger, number of the process, number
// of goroutines, length of a hold in us.
func greedyRole(self *faults.Self, client *relock.Client) error {
	all, err := openShared[ledger](self.Args[3])
	if err != nil {
		return err
	}
	process, _ := strconv.ParseInt(self.Args[4], 10, 64)
	count, _ := strconv.Atoi(self.Args[5])
	us, _ := strconv.Atoi(self.Args[6])
	lock := newLockOf(self.Args[2], "greedy", client, relock.WithBlock())
	self.Emit("ready")
	if _, ok := <-self.Commands; !ok {
		return nil
	}
	ctx := self.Context()
	return faults.Together(count, func(int) error {
		return takeGreedily(ctx, lock, all, process, time.Duration(us)*time.Microsecond)
	})
}

func takeGreedily(ctx context.Context, lock processLock, all *ledger, process int64, work time.Duration) error {
	for ctx.Err() == nil {
		hold, err := lock.Acquire(ctx)
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("acquire: %w", err)
		}
		begun := all.begins(process)
		if work > 0 {
			time.Sleep(work)
		}
		all.ends(process, begun)
		if err := hold.Unlock(context.Background()); err != nil {
			return fmt.Errorf("unlock: %w", err)
		}
	}
	return nil
}
