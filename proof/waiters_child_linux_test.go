package proof

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/faults"
)

func init() {
	roles["waiters"] = withClient(waitersRole)
	roles["counters"] = withClient(countersRole)
}

const (
	fairMode   = "fair"
	unfairMode = "unfair"
)

// waitedLock is a lock of the kind and mode that waits.
func waitedLock(kind, mode, key string, client *relock.Client, opts ...relock.LockOption) processLock {
	opts = append([]relock.LockOption{relock.WithBlock()}, opts...)
	if mode == fairMode {
		opts = append(opts, relock.WithFair())
	}
	return newLockOf(kind, key, client, opts...)
}

// waitersRole has goroutines that each wait once for one lock, and hold it
// until the test sends "unlock". Arguments: network, address, kind, mode, key,
// lease in ms, number of goroutines.
func waitersRole(self *faults.Self, client *relock.Client) error {
	lease, _ := strconv.Atoi(self.Args[5])
	count, _ := strconv.Atoi(self.Args[6])
	lock := waitedLock(self.Args[2], self.Args[3], self.Args[4], client,
		relock.WithWatchdog(time.Duration(lease)*time.Millisecond))
	ctx, cancel := context.WithCancel(context.Background())
	unlock := make(chan struct{})
	var group sync.WaitGroup
	for i := range count {
		group.Go(func() {
			hold, err := lock.Acquire(ctx)
			if err != nil {
				self.Emit("refused", i, err)
				return
			}
			self.Emit("granted", i, faults.Now())
			select {
			case <-unlock:
			case <-ctx.Done():
			}
			self.Emit("unlocked", i, hold.Unlock(context.Background()))
		})
	}
	for range self.Commands {
		unlock <- struct{}{}
	}
	cancel()
	group.Wait()
	return nil
}

// countersRole has eight goroutines that increment a register under the lock,
// without checking their holds. Arguments: network, address, kind, mode, key,
// register, increments of each goroutine.
func countersRole(self *faults.Self, client *relock.Client) error {
	shared, err := openShared[register](self.Args[5])
	if err != nil {
		return err
	}
	times, _ := strconv.Atoi(self.Args[6])
	lock := waitedLock(self.Args[2], self.Args[3], self.Args[4], client)
	err = faults.Together(contenders, func(int) (err error) {
		for n := 0; n < times && err == nil; n++ {
			err = increment(lock, shared)
		}
		return err
	})
	self.Emit("counted", err == nil)
	return err
}

func increment(lock processLock, shared *register) error {
	hold, err := lock.Acquire(context.Background())
	if err != nil {
		return fmt.Errorf("acquire: %w", err)
	}
	n := shared.read()
	time.Sleep(workTime)
	if before := shared.write(n + 1); before != n {
		return fmt.Errorf("two together: %d became %d", n, before)
	}
	return hold.Unlock(context.Background())
}
