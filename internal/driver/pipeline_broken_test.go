package driver

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/testkit"
)

// A connection that owes an answer and says nothing takes no more requests, and
// is cut when nobody can wait any longer.
func TestSilentSharedConnectionIsReplaced(t *testing.T) {
	t.Parallel()
	b := newSharedBench(t, withCommandTimeout(time.Second))
	b.requireAnswer("first")
	b.proxy.On(faults.Command("ECHO"), 1, faults.DropAnswer)
	patient := testkit.Async(t, func() error { return b.send(context.Background(), Limits{}, "patient").Err })
	require.True(t, b.proxy.Await(faults.Command("ECHO"), 2, 2*time.Second))
	o := b.send(t.Context(), Limits{Answer: 150 * time.Millisecond}, "impatient")
	require.ErrorIs(t, o.Err, ErrTimeout)
	b.requireAnswer("on another connection")
	require.Equal(t, 2, b.open())
	require.True(t, IsTransient(testkit.ResultWithin(t, patient, 2*time.Second)))
	testkit.Eventually(t, 2*time.Second, func() bool { return b.open() == 1 }, "the silent one is closed")
}

// Calls that leave before they lose patience do not keep a silent connection
// alive.
func TestSilentSharedConnectionWithShortContexts(t *testing.T) {
	t.Parallel()
	b := newSharedBench(t)
	b.requireAnswer("first")
	b.proxy.On(faults.Command("ECHO"), 1, faults.DropAnswer)
	for range 20 { // five are as long as a connection may be silent
		ctx, cancel := context.WithTimeout(t.Context(), MinLimit/5)
		b.send(ctx, Limits{}, "short")
		cancel()
	}
	b.requireAnswer("on another connection")
}

// After READONLY the next request goes over another connection. The one that
// led to a replica is closed when all its requests are answered, or cannot be
// in time.
func TestSharedConnectionToAReplica(t *testing.T) {
	t.Parallel()
	for name, action := range map[string]faults.Action{"answered": faults.Delay(100 * time.Millisecond), "silent": faults.DropAnswer} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newSharedBench(t, withCommandTimeout(2*time.Second))
			b.proxy.On(faults.Command("GET"), 1, faults.ErrorLine("READONLY You can't write against a read only replica."))
			b.proxy.On(faults.Command("ECHO"), 1, action)
			b.server.Pause(t)
			first := testkit.Async(t, func() error {
				return b.pool.Send(t.Context(), Limits{}, Request{Cmd: "SET", Args: []any{"k", "v"}}).Err
			})
			require.True(t, b.proxy.Await(faults.Command("SET"), 1, testkit.Patience))
			readOnly := testkit.Async(t, func() error {
				return b.pool.Send(t.Context(), Limits{}, Request{Cmd: "GET", Args: []any{"k"}}).Err
			})
			require.True(t, b.proxy.Await(faults.Command("GET"), 1, testkit.Patience))
			last := testkit.Async(t, func() error { return b.send(t.Context(), Limits{}, "last").Err })
			require.True(t, b.proxy.Await(faults.Command("ECHO"), 1, testkit.Patience))
			b.server.Resume(t)
			require.NoError(t, testkit.ResultWithin(t, first, 2*time.Second))
			require.ErrorContains(t, testkit.ResultWithin(t, readOnly, 2*time.Second), "READONLY")
			b.requireAnswer("next")
			require.Equal(t, 2, b.dials())
			if err := testkit.ResultWithin(t, last, 5*time.Second); name == "answered" {
				require.NoError(t, err)
			}
			testkit.Eventually(t, 5*time.Second, func() bool { return b.open() == 1 }, "the old one is closed")
		})
	}
}

// A connection that breaks loses no request without a word: those that were
// written are unanswered and may be sent again, those that were not go over the
// next one.
func TestSharedConnectionBreaks(t *testing.T) {
	t.Parallel()
	b := newSharedBench(t)
	b.requireAnswer("first")
	b.proxy.On(faults.Command("INCR"), 7, faults.CutAfter)
	var group sync.WaitGroup
	var mu sync.Mutex
	answered, broke := 0, 0
	for range 20 {
		group.Go(func() {
			o := b.pool.Send(context.Background(), Limits{}, Request{Cmd: "INCR", Args: []any{"n"}})
			mu.Lock()
			defer mu.Unlock()
			switch {
			case o.Answered:
				answered++
			case o.Broke():
				broke++
			default:
				t.Errorf("outcome %+v", o)
			}
		})
	}
	group.Wait()
	executed, err := redis.Int(b.inspector.Do("GET", "n"))
	require.NoError(t, err)
	require.Positive(t, broke)
	require.GreaterOrEqual(t, executed, answered)
	require.LessOrEqual(t, executed, answered+broke)
	b.requireAnswer("next")
	b.proxy.On(faults.Command("ECHO"), 1, faults.CutAfter)
	require.True(t, b.send(t.Context(), Limits{}, "cut").Broke())
}

// A server that was restarted while nobody called costs no error.
func TestSharedConnectionNoticesARestart(t *testing.T) {
	t.Parallel()
	b := newSharedBench(t)
	b.requireAnswer("first")
	stream := b.pool.shared.stream
	b.server.Kill(t)
	<-stream.done
	b.server.Boot(t)
	b.requireAnswer("next")
}

// A connection that was idle for longer than the idle timeout, or is too old,
// is not used again.
func TestSharedConnectionGrowsOld(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(p *pipeline){
		"idle": func(p *pipeline) { p.idle = 50 * time.Millisecond },
		"old":  func(p *pipeline) { p.idle, p.age = 0, 50*time.Millisecond },
	} {
		t.Run(name, func(t *testing.T) {
			b := newSharedBench(t)
			p := b.pool.shared
			require.Equal(t, testIdleTimeout, p.idle)
			change(p)
			b.requireAnswer("first")
			time.Sleep(60 * time.Millisecond)
			b.requireAnswer("second")
			require.Equal(t, 2, b.dials())
			testkit.Eventually(t, 2*time.Second, func() bool { return b.open() == 1 }, "the old one is closed")
		})
	}
}
