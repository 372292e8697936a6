package queue_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/queue"
)

func BenchmarkEnqueue(b *testing.B) {
	for _, producers := range []int{1, 64} {
		b.Run(fmt.Sprint(producers), func(b *testing.B) {
			q := newQueue(b, redistest.Start(b))
			payload := make([]byte, 100)
			var left atomic.Int64
			left.Store(int64(b.N))
			var group sync.WaitGroup
			b.ResetTimer()
			for range producers {
				group.Go(func() {
					for left.Add(-1) >= 0 {
						if err := q.Enqueue(b.Context(), queue.Task{Payload: payload}); err != nil {
							b.Error(err)
						}
					}
				})
			}
			group.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "tasks/s")
		})
	}
}

func BenchmarkProcess(b *testing.B) {
	for _, workers := range []int{1, 64} {
		b.Run(fmt.Sprint(workers), func(b *testing.B) {
			q := newQueue(b, redistest.Start(b))
			tasks := make([]queue.Task, b.N)
			for i := range tasks {
				tasks[i].Payload = make([]byte, 100)
			}
			require.NoError(b, q.Enqueue(b.Context(), tasks...))
			ctx, stop := context.WithCancel(b.Context())
			var done atomic.Int64
			b.ResetTimer()
			require.NoError(b, q.Process(ctx, func(context.Context, *queue.Delivery) error {
				if done.Add(1) == int64(b.N) {
					stop()
				}
				return nil
			}, queue.WithWorkers(workers)))
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "tasks/s")
		})
	}
}
