package queue_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/queue"
)

// cpu reports the processor time of server and client for each task. Unlike the
// rate it does not depend on what else the machine does.
func cpu(b *testing.B, s *redistest.Server) (report func()) {
	used := func() (server, own float64) {
		text := string(s.Do(b, "INFO", "cpu").([]byte))
		for line := range strings.Lines(text) {
			name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
			if name == "used_cpu_user" || name == "used_cpu_sys" {
				n, _ := strconv.ParseFloat(value, 64)
				server += n
			}
		}
		var u syscall.Rusage
		require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
		return server, float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
	}
	server, own := used()
	return func() {
		server2, own2 := used()
		b.ReportMetric((server2-server)/float64(b.N)*1e6, "server-us/task")
		b.ReportMetric((own2-own)/float64(b.N)*1e6, "client-us/task")
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "tasks/s")
	}
}

func BenchmarkEnqueue(b *testing.B) {
	for _, producers := range []int{1, 64} {
		b.Run(fmt.Sprint(producers), func(b *testing.B) {
			s := redistest.Start(b)
			q := newQueue(b, s)
			payload := make([]byte, 100)
			var left atomic.Int64
			left.Store(int64(b.N))
			var group sync.WaitGroup
			report := cpu(b, s)
			b.ResetTimer()
			for range producers {
				group.Go(func() {
					for left.Add(-1) >= 0 {
						if err := put(b.Context(), q, queue.Task{Payload: payload}); err != nil {
							b.Error(err)
						}
					}
				})
			}
			group.Wait()
			report()
		})
	}
}

func BenchmarkProcess(b *testing.B) {
	for _, workers := range []int{1, 64} {
		b.Run(fmt.Sprint(workers), func(b *testing.B) {
			s := redistest.Start(b)
			q := newQueue(b, s)
			tasks := make([]queue.Task, b.N)
			for i := range tasks {
				tasks[i].Payload = make([]byte, 100)
			}
			require.NoError(b, put(b.Context(), q, tasks...))
			ctx, stop := context.WithCancel(b.Context())
			var done atomic.Int64
			report := cpu(b, s)
			b.ResetTimer()
			require.NoError(b, q.Process(ctx, func(context.Context, *queue.Delivery) error {
				if done.Add(1) == int64(b.N) {
					stop()
				}
				return nil
			}, queue.WithWorkers(workers)))
			report()
		})
	}
}
