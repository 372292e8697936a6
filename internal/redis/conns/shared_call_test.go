package conns

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/redis/driver"
	"github.com/relock-go/relock/internal/redis/wire"
	"github.com/relock-go/relock/internal/test/faults"
	"github.com/relock-go/relock/internal/test/testkit"
)

// The channel of a call may get a value that was meant for an earlier call.
func TestWokenForAnEarlierCall(t *testing.T) {
	t.Parallel()
	testkit.Each(t, map[string]context.Context{
		"background": context.Background(), "can end": t.Context(),
	}, func(t *testing.T, _ string, ctx context.Context) {
		c := newSharedCall(new(sync.Pool), time.Now().Add(time.Hour))
		result := testkit.Async(t, func() error {
			o, why := c.wait(ctx, nil)
			require.True(t, o.Answered)
			return why
		})
		nudge(c.wake)
		testkit.Eventually(t, testkit.Patience, func() bool { return len(c.wake) == 0 }, "woken")
		require.Empty(t, result)
		c.end(driver.Result{Answered: true})
		require.NoError(t, testkit.ResultWithin(t, result, testkit.Patience))
	})
}

// One timer serves all calls. Each leaves when its own time is over, however
// long those around it wait.
func TestCallsLeaveInTime(t *testing.T) {
	t.Parallel()
	b := newOpenBench(t)
	answers := make(chan struct{})
	defer close(answers)
	b.proxy.On(faults.Command("ECHO"), 1, faults.DelayUntil(answers))
	begun := time.Now()
	limits := []time.Duration{900, 150, 600, 300, 450}
	var left []<-chan error
	for _, ms := range limits {
		left = append(left, testkit.Async(b, func() error {
			watch := testkit.NewStopwatch(t)
			err := b.send(context.Background(), driver.Limits{Answer: ms * time.Millisecond}, "x").Err
			if took := time.Since(begun); took < ms*time.Millisecond || watch.Net() > (ms+100)*time.Millisecond {
				return fmt.Errorf("left after %v: %w", took, err)
			}
			return err
		}))
	}
	for _, result := range left {
		require.EqualError(t, testkit.ResultWithin(t, result, testkit.Patience), driver.ErrTimeout.Error())
	}
}

// A batch of many requests is written in parts, so that the connection keeps
// its buffer.
func TestLargeBatchIsWrittenInParts(t *testing.T) {
	t.Parallel()
	b := newOpenBench(t)
	s := b.aboutToWrite(0)
	requests := make([]driver.Request, 1000)
	for i := range requests {
		requests[i] = echo(fmt.Sprintf("%0200d", i))
	}
	outcomes := make(chan []driver.Result, 1)
	go func() { outcomes <- b.pool.shared.batch(context.Background(), s, time.Minute, requests) }()
	b.awaitUnwritten(len(requests))
	s.more <- struct{}{}
	for i, o := range <-outcomes {
		require.NoError(t, o.Err)
		require.Equal(t, requests[i].Args[0], string(o.Reply.([]byte)))
	}
	testkit.Eventually(t, testkit.Patience, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return !s.writing
	}, "written")
	kept := cap(s.conn.(*wire.Conn).Out)
	require.Positive(t, kept)
	require.LessOrEqual(t, kept, wire.MaxKept)
}
