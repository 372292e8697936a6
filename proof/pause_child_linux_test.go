package proof

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/faults"
)

// holder is a process that obeys the test's commands about one lock, step by
// step.
type holder struct {
	self   *faults.Self
	lock   processLock
	shared *register
	hold   relock.Hold
	read   int64
}

// holderRole obeys commands about a lock. Arguments: network, address, kind,
// key, lease in ms, register, "blocking" or "once".
func holderRole(self *faults.Self, client *relock.Client) error {
	shared, err := openShared[register](self.Args[5])
	if err != nil {
		return err
	}
	lease, _ := strconv.Atoi(self.Args[4])
	opts := []relock.LockOption{
		relock.WithWatchdog(time.Duration(lease) * time.Millisecond), relock.WithPollInterval(10 * time.Millisecond),
	}
	if self.Args[6] == "blocking" {
		opts = append(opts, relock.WithBlock())
	}
	h := &holder{self: self, lock: newLockOf(self.Args[2], self.Args[3], client, opts...), shared: shared}
	var over atomic.Bool
	go watchTimers(&over, func(due time.Time) { self.Emit("late", faults.Stamp(due), faults.Now()) })
	for command := range self.Commands {
		if err := h.obey(command); err != nil {
			return err
		}
	}
	over.Store(true)
	return nil
}

func (h *holder) obey(command string) error {
	switch command {
	case "acquire":
		h.acquire()
	case "check":
		h.read = h.shared.read()
		now := faults.Now()
		h.self.Emit("check", now, h.hold.Err() == nil, faults.Stamp(h.hold.ValidUntil()), h.read)
	case "write":
		before := h.shared.write(h.read + 1)
		h.self.Emit("write", faults.Now(), before)
	case "unlock":
		err := h.hold.Unlock(context.Background())
		h.self.Emit("unlock", errors.Is(err, relock.ErrLockLost), errors.Is(err, relock.ErrNotHeld), err)
	default:
		return fmt.Errorf("unknown command %q", command)
	}
	return nil
}

// acquire reports whether the lock was granted and is valid, and later when it
// was lost.
func (h *holder) acquire() {
	hold, err := h.lock.Acquire(context.Background())
	now := faults.Now()
	if err != nil {
		h.self.Emit("acquire", false, false, now, err)
		return
	}
	h.self.Emit("acquire", true, hold.Err() == nil, now, "")
	h.hold = hold
	go func() {
		<-hold.Context().Done()
		h.self.Emit("lost", faults.Now(), errors.Is(context.Cause(hold.Context()), relock.ErrLockLost))
	}()
}
