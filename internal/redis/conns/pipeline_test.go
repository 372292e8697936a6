package conns

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/redis/driver"
	"github.com/relock-go/relock/internal/test/faults"
	"github.com/relock-go/relock/internal/test/testkit"
)

// Calls of many goroutines share one connection; each gets its own answer,
// though callers leave all the time.
func TestSharedConnection(t *testing.T) {
	t.Parallel()
	b := newSharedBench(t)
	var mu sync.Mutex
	answers := []time.Time{time.Now()}
	Together(64, func(g int) {
		for n := range 60 {
			ctx, cancel := context.WithCancel(t.Context())
			if n%4 == 0 {
				time.AfterFunc(rand.N(time.Millisecond), cancel)
			}
			o := b.send(ctx, driver.Limits{}, fmt.Sprint(g, " ", n))
			if o.Err != nil && (ctx.Err() == nil || !errors.Is(o.Err, driver.ErrAbandoned)) {
				t.Errorf("send: %v", o.Err)
			}
			if o.Err == nil {
				mu.Lock()
				answers = append(answers, time.Now())
				mu.Unlock()
			}
			cancel()
		}
	})
	answers = append(answers, time.Now())
	require.LessOrEqual(t, b.dials(), 1+silences(answers),
		"a caller that leaves gives up no connection on which answers come")
}

// Few calls have a connection each, out of the pool; those beyond share one.
func TestCallsBeyondAFewShare(t *testing.T) {
	t.Parallel()
	b := newOpenBench(t, withCommandTimeout(testkit.Patience))
	b.pool.apart = crowd
	b.server.Pause(t)
	results := b.burst(4 * crowd)
	testkit.Eventually(t, testkit.Patience, func() bool { return b.pool.Sending() == 4*crowd }, "under way")
	require.True(t, b.proxy.Await(faults.Command("ECHO"), 1+4*crowd, testkit.Patience), "each has its connection")
	b.server.Resume(t)
	testkit.AllWithin(t, results, testkit.Patience)
	require.Equal(t, crowd+1, b.open())
}

// A caller that leaves cuts nothing: its answer is taken in when it comes, and
// noted.
func TestLeavingASharedConnection(t *testing.T) {
	t.Parallel()
	b := newOpenBench(t)
	answers := make(chan struct{})
	b.proxy.On(faults.Command("ECHO"), 2, faults.DelayUntil(answers))
	b.server.Pause(t)
	before := b.async(context.Background(), "before")
	require.True(t, b.proxy.Await(faults.Command("ECHO"), 2, testkit.Patience))
	o := b.leave(func() {
		require.True(t, b.proxy.Await(faults.Command("ECHO"), 3, testkit.Patience))
		b.server.Resume(t)
		require.NoError(t, testkit.ResultWithin(t, before, testkit.Patience)) // the connection is not silent
	})
	require.True(t, o.Unanswered())
	require.False(t, o.Abandoned.Answered())
	close(answers)
	b.requireAnswer("next")
	require.True(t, o.Abandoned.Answered())
	require.Equal(t, 1, b.dials())
}

// What a caller has left before it was written is not written.
func TestLeftBeforeItWasWritten(t *testing.T) {
	t.Parallel()
	b := newOpenBench(t)
	s := b.aboutToWrite(0)
	o := b.leave(func() { b.awaitUnwritten(1) })
	require.False(t, o.Unanswered())
	later := b.async(context.Background(), "later")
	b.awaitUnwritten(2)
	s.more <- struct{}{}
	require.NoError(t, testkit.ResultWithin(t, later, testkit.Patience))
	require.Equal(t, 2, b.proxy.Count(faults.Command("ECHO")))
}

// A connection that has rested for longer than an answer may take owes none: it
// is as good for the second of a burst, which comes before the first has
// written, as for the first.
func TestBurstAfterARest(t *testing.T) {
	t.Parallel()
	b := newOpenBench(t)
	s := b.aboutToWrite(2 * testCommandTimeout)
	burst := b.burst(3)
	b.awaitUnwritten(len(burst))
	s.more <- struct{}{}
	testkit.AllWithin(t, burst, testkit.Patience)
	require.Equal(t, 1, b.dials())
}

// One that grows too old meanwhile has the whole time for the answers to what
// it took.
func TestSharedConnectionGrowsOldBeforeAWrite(t *testing.T) {
	t.Parallel()
	b := newOpenBench(t)
	s := b.aboutToWrite(2 * testCommandTimeout)
	sent := b.async(context.Background(), "taken")
	b.awaitUnwritten(1)
	require.False(t, s.usable(time.Now(), 0, time.Nanosecond), "too old")
	time.Sleep(50 * time.Millisecond) // nothing is to happen
	s.more <- struct{}{}
	require.NoError(t, testkit.ResultWithin(t, sent, testkit.Patience))
	require.Equal(t, 1, b.dials(), "cut under what it took")
}

// Validity counts from before the request is on its way, whichever call writes
// it.
func TestSharedRequestsAreStampedBeforeTheyAreWritten(t *testing.T) {
	t.Parallel()
	b := newSharedBench(t)
	var mu sync.Mutex
	sent := map[string]time.Time{}
	Together(32, func(g int) {
		for n := range 20 {
			text := fmt.Sprint(g, " ", n)
			o := b.send(t.Context(), driver.Limits{}, text)
			mu.Lock()
			sent[text] = o.Sent
			mu.Unlock()
		}
	})
	seen := 0
	for _, request := range b.proxy.Seen() {
		if request.Name == "ECHO" {
			seen++
			require.False(t, sent[request.Args[1]].After(request.At), "stamped when it had arrived")
			require.False(t, sent[request.Args[1]].IsZero())
		}
	}
	require.Equal(t, 32*20, seen)
}

// Impatient calls, as of very short leases, do not end the connection under the
// others while answers come.
func TestImpatientCallsKeepTheSharedConnection(t *testing.T) {
	t.Parallel()
	b := newOpenBench(t, withCommandTimeout(testkit.Patience))
	b.proxy.On(faults.Command("ECHO"), faults.Every, faults.Delay(10*time.Millisecond))
	start := time.Now()
	patient := b.burst(100) // their answers come one after the other, ahead of those that the impatient ones wait for
	require.True(t, b.proxy.Await(faults.Command("ECHO"), 101, testkit.Patience))
	for n := range 20 {
		o := b.send(t.Context(), driver.Limits{Answer: 3 * time.Millisecond}, fmt.Sprint(n))
		if o.Err == nil {
			require.Greater(t, b.dials(), 1, "answered ahead of those before it")
			continue
		}
		require.ErrorIs(t, o.Err, driver.ErrTimeout)
	}
	// each connection after the first takes the place of one that was silent
	// for so long
	silent := int(time.Since(start) / driver.MinLimit)
	testkit.AllWithin(t, patient, testkit.Patience)
	b.requireAnswer("patient")
	require.LessOrEqual(t, b.dials(), 1+silent)
	t.Logf("%d connections, %d silent at most", b.dials(), silent)
}

// A caller that gives up waiting for a dial does not end it for the others.
func TestSharedDialIsForAll(t *testing.T) {
	t.Parallel()
	b := newSharedBench(t, withDatabase(1))
	b.proxy.Stall()
	o := b.send(t.Context(), driver.Limits{Connect: 10 * time.Millisecond}, "impatient")
	require.ErrorIs(t, o.Err, errDialTimeout)
	require.True(t, o.Sent.IsZero())
	require.True(t, driver.IsTransient(o.Err))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, b.send(ctx, driver.Limits{}, "leaves").Err, driver.ErrAbandoned)
	b.proxy.Resume()
	b.requireAnswer("patient")
	require.Equal(t, 1, b.dials())
}

// A connection that owes an answer and says nothing takes no more requests, and
// is cut when no call can wait any longer.
func TestSilentSharedConnectionIsReplaced(t *testing.T) {
	t.Parallel()
	b := newOpenBench(t)
	b.proxy.On(faults.Command("ECHO"), 1, faults.DropAnswer)
	patient := b.async(context.Background(), "patient")
	require.True(t, b.proxy.Await(faults.Command("ECHO"), 2, testkit.Patience))
	o := b.send(t.Context(), driver.Limits{Answer: 150 * time.Millisecond}, "impatient")
	require.ErrorIs(t, o.Err, driver.ErrTimeout)
	b.requireAnswer("on another connection")
	require.Equal(t, 2, b.open())
	require.True(t, driver.IsTransient(testkit.ResultWithin(t, patient, testkit.Patience)))
	testkit.Eventually(t, testkit.Patience, func() bool { return b.open() == 1 }, "the silent one is closed")
}

// Calls that leave before they lose patience do not keep a silent connection
// alive.
func TestSilentSharedConnectionWithShortContexts(t *testing.T) {
	t.Parallel()
	b := newOpenBench(t)
	b.proxy.On(faults.Command("ECHO"), 1, faults.DropAnswer)
	for range 20 { // five are as long as a connection may be silent
		ctx, cancel := context.WithTimeout(t.Context(), driver.MinLimit/5)
		b.send(ctx, driver.Limits{}, "short")
		cancel()
	}
	b.requireAnswer("on another connection")
}

// After READONLY the next request goes over another connection. The one that
// led to a replica is closed when all its requests are answered, or cannot be
// in time.
func TestSharedConnectionToAReplica(t *testing.T) {
	t.Parallel()
	testkit.Each(t, map[string]faults.Action{
		"answered": faults.Delay(100 * time.Millisecond), "silent": faults.DropAnswer,
	}, func(t *testing.T, name string, action faults.Action) {
		b := newOpenBench(t, withCommandTimeout(2*time.Second))
		b.proxy.On(faults.Command("GET"), 1, faults.ErrorLine("READONLY You can't write against a read only replica."))
		b.proxy.On(faults.Command("ECHO"), 1, action)
		b.server.Pause(t)
		first := testkit.Async(t, func() error {
			return b.pool.Send(t.Context(), driver.Limits{}, driver.Request{Cmd: "SET", Args: []any{"k", "v"}}).Err
		})
		require.True(t, b.proxy.Await(faults.Command("SET"), 1, testkit.Patience))
		readOnly := testkit.Async(t, func() error {
			return b.pool.Send(t.Context(), driver.Limits{}, driver.Request{Cmd: "GET", Args: []any{"k"}}).Err
		})
		require.True(t, b.proxy.Await(faults.Command("GET"), 1, testkit.Patience))
		last := b.async(t.Context(), "last")
		require.True(t, b.proxy.Await(faults.Command("ECHO"), 2, testkit.Patience))
		b.server.Resume(t)
		require.NoError(t, testkit.ResultWithin(t, first, testkit.Patience))
		require.ErrorContains(t, testkit.ResultWithin(t, readOnly, testkit.Patience), "READONLY")
		b.requireAnswer("next")
		require.Equal(t, 2, b.dials())
		if err := testkit.ResultWithin(t, last, testkit.Patience); name == "answered" {
			require.NoError(t, err)
		}
		testkit.Eventually(t, testkit.Patience, func() bool { return b.open() == 1 }, "the old one is closed")
	})
}

// Each request of a connection that breaks has a result. Those that were
// written are unanswered and may be sent again, those that were not go over the
// next one.
func TestSharedConnectionBreaks(t *testing.T) {
	t.Parallel()
	b := newOpenBench(t)
	b.proxy.On(faults.Command("INCR"), 7, faults.CutAfter)
	var mu sync.Mutex
	answered, broke := 0, 0
	Together(20, func(int) {
		o := b.pool.Send(context.Background(), driver.Limits{}, driver.Request{Cmd: "INCR", Args: []any{"n"}})
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
	executed, err := redis.Int(b.inspector.Do("GET", "n"))
	require.NoError(t, err)
	require.Positive(t, broke)
	require.GreaterOrEqual(t, executed, answered)
	require.LessOrEqual(t, executed, answered+broke)
	b.requireAnswer("next")
	b.proxy.On(faults.Command("ECHO"), 1, faults.CutAfter)
	require.True(t, b.send(t.Context(), driver.Limits{}, "cut").Broke())
}

// A server that was restarted while there were no calls costs no error.
func TestSharedConnectionNoticesARestart(t *testing.T) {
	t.Parallel()
	b := newOpenBench(t)
	stream := b.pool.shared.stream.Load()
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
			testkit.Eventually(t, testkit.Patience, func() bool { return b.open() == 1 }, "the old one is closed")
		})
	}
}

// A user's pool gives its limits to the shared connection.
func TestSharedConnectionHasTheLimitsOfTheUserPool(t *testing.T) {
	t.Parallel()
	d := FromPool(&driver.Config{}, &redis.Pool{IdleTimeout: time.Minute, MaxConnLifetime: time.Hour})
	defer func() { require.NoError(t, d.Close()) }()
	require.Equal(t, time.Minute, d.shared.idle)
	require.Equal(t, time.Hour, d.shared.age)
}
