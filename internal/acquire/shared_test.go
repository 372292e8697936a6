package acquire_test

import (
	"context"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/locktest"
)

// Goroutines that use one object exclude each other, whatever its kind.
func TestSharedObjectExcludes(t *testing.T) {
	b, red := locktest.NewBench(t), locktest.NewRedBench(t, locktest.NewRedServers(t, 3))
	for name, l := range map[string]locktest.AnyLock{
		"RedisLock": relock.NewRedisLock("k", b.Client, relock.WithBlock()),
		"MultiLock": relock.NewMultiLock([]string{"a", "b"}, b.Client, relock.WithBlock()),
		"RedLock":   red.Patient(relock.WithBlock(), relock.WithPollInterval(2*time.Millisecond)),
	} {
		t.Run(name, func(t *testing.T) {
			counter := 0
			var group sync.WaitGroup
			for range 8 {
				group.Go(func() {
					for range 20 {
						assert.NoError(t, l.Do(t.Context(), func(context.Context) error {
							seen := counter // unprotected: the race detector and the sum would show it
							runtime.Gosched()
							counter = seen + 1
							return nil
						}))
					}
				})
			}
			group.Wait()
			require.Equal(t, 160, counter)
		})
	}
	b.RequireNothingLeft("k", "a", "b")
	red.RequireFree(time.Second)
}
