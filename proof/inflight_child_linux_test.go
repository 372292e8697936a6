package proof

import (
	"context"
	"strconv"
	"time"

	"github.com/relock-go/relock/internal/test/faults"
	"github.com/relock-go/relock/queue"
)

const limitedLease = 500 * time.Millisecond

// limitedRole processes tasks of a queue with a limit until the test ends it.
// Arguments: network, address, limit, ms that a task takes.
func limitedRole(self *faults.Self) error {
	client, err := newProcessClient(self.Args[0], self.Args[1])
	if err != nil {
		return err
	}
	limit, err := strconv.Atoi(self.Args[2])
	if err != nil {
		return err
	}
	takes, err := time.ParseDuration(self.Args[3] + "ms")
	if err != nil {
		return err
	}
	q, err := queue.New(tasksQueue, client, queue.WithLease(limitedLease), queue.WithMaxInFlight(limit))
	if err != nil {
		return err
	}
	err = q.Process(self.Context(), func(_ context.Context, d *queue.Delivery) error {
		from := faults.Now()
		self.Emit("begin", d.Fence(), from, from+int64(time.Hour)) // or until it is killed
		time.Sleep(takes)
		if d.Err() == nil {
			self.Emit("end", d.Fence(), from, faults.Now())
		} else {
			self.Emit("end", d.Fence(), from, from)
		}
		return nil
	}, queue.WithWorkers(16))
	_ = client.Close()
	return err
}
