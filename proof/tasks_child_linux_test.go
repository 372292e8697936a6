package proof

import (
	"context"
	"time"

	"github.com/relock-go/relock/internal/test/faults"
	"github.com/relock-go/relock/queue"
)

// workerRole processes tasks until the test wants it to end. Arguments:
// network, address.
func workerRole(self *faults.Self) error {
	client, err := newProcessClient(self.Args[0], self.Args[1])
	if err != nil {
		return err
	}
	q, err := queue.New(tasksQueue, client, queue.WithLease(tasksLease))
	if err != nil {
		return err
	}
	err = q.Process(self.Context(), func(ctx context.Context, d *queue.Delivery) error {
		self.Emit("began", d.ID, d.Fence(), d.Attempt)
		time.Sleep(200 * time.Microsecond)
		if d.Err() == nil {
			self.Emit("did", d.ID, d.Fence())
		}
		err := d.Ack(ctx)
		if err == nil {
			self.Emit("acked", d.ID, d.Fence())
		}
		return err
	}, queue.WithWorkers(16))
	_ = client.Close()
	return err
}
