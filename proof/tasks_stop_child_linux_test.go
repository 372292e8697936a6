package proof

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/faults"
	"github.com/relock-go/relock/queue"
)

// taskHolderRole receives tasks, and settles them as the test commands.
// Arguments: network, address, lease in ms, how many tasks.
func taskHolderRole(self *faults.Self, client *relock.Client) error {
	lease, _ := strconv.Atoi(self.Args[2])
	n, _ := strconv.Atoi(self.Args[3])
	q, err := queue.New(tasksQueue, client, queue.WithLease(time.Duration(lease)*time.Millisecond))
	if err != nil {
		return err
	}
	var all []*queue.Delivery
	for len(all) < n {
		got, err := q.Receive(context.Background(), n-len(all))
		if err != nil {
			return err
		}
		all = append(all, got...)
	}
	self.Emit("took", all[0].ID)
	for verb := range self.Commands {
		d := all[0]
		all = all[1:]
		cause := d.Err()
		err := settleLate(d, verb)
		self.Emit("settled", errors.Is(cause, relock.ErrLockLost), errors.Is(err, relock.ErrLockLost),
			errors.Is(err, relock.ErrNotHeld), err)
	}
	return nil
}

func settleLate(d *queue.Delivery, verb string) error {
	ctx := context.Background()
	switch verb {
	case "ack":
		return d.Ack(ctx)
	case "nack":
		return d.Nack(ctx, 0, nil)
	case "release":
		return d.Release(ctx)
	}
	return d.DeadLetter(ctx, nil)
}
