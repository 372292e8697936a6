package goredis_test

import (
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/redistest"
)

// BenchmarkAgainstNative alternates between our own client and one over
// go-redis, and reports the median of the ratios of their pairs of lock and
// unlock a second. Each goroutine has its own key.
func BenchmarkAgainstNative(b *testing.B) {
	s := redistest.StartTCP(b)
	native, err := relock.NewClient(s.Network, s.Address, "")
	require.NoError(b, err)
	defer native.Close() //nolint:errcheck // the servers end, too
	rdb := redis.NewClient(&redis.Options{Addr: s.Address})
	defer rdb.Close() //nolint:errcheck // it has no connection
	over := newClientOnly(b, rdb)
	for _, goroutines := range []int{1, 64, 256} {
		b.Run(strconv.Itoa(goroutines), func(b *testing.B) {
			var ratios []float64
			for b.Loop() {
				a := pairs(b, native, goroutines)
				c, d := pairs(b, over, goroutines), pairs(b, over, goroutines)
				ratios = append(ratios, (c+d)/(a+pairs(b, native, goroutines)))
			}
			slices.Sort(ratios)
			n := len(ratios)
			b.ReportMetric(ratios[n/2], "of-native")
			b.Logf("%d rounds, quartiles %.3f and %.3f", n, ratios[n/4], ratios[n*3/4])
		})
	}
}

// pairs returns how many pairs a second this number of goroutines reaches.
func pairs(b *testing.B, c *relock.Client, goroutines int) float64 {
	const length = 100 * time.Millisecond // short, as the load of the machine changes
	counts := make([]int, goroutines)
	var group sync.WaitGroup
	began := time.Now()
	for i := range goroutines {
		group.Go(func() {
			lock := relock.NewRedisLock("bench/"+strconv.Itoa(i), c)
			for time.Since(began) < length {
				h, err := lock.Acquire(b.Context())
				if err != nil || h.Unlock(b.Context()) != nil {
					b.Error("a lock failed", err)
					return
				}
				counts[i]++
			}
		})
	}
	group.Wait()
	sum := 0
	for _, n := range counts {
		sum += n
	}
	return float64(sum) / time.Since(began).Seconds()
}
