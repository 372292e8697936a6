package faults

import (
	"errors"
	"io"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/test/redistest"
)

// What becomes of an INCR: its client gets the first reply or an error, and the
// server has counted it n times. The requests that were held back count when
// they are released. The action is over then.
func TestActions(t *testing.T) {
	silence := os.ErrDeadlineExceeded
	for name, tt := range map[string]struct {
		action Action
		err    error
		n      int
		held   []string      // the server's replies
		least  time.Duration // until the first reply
	}{
		"DropRequest":      {DropRequest, silence, 0, nil, 0},
		"DropAnswer":       {DropAnswer, silence, 1, nil, 0},
		"CutBefore":        {CutBefore, io.EOF, 0, nil, 0},
		"CutAfter":         {CutAfter, io.EOF, 1, nil, 0},
		"CutInRequest":     {CutInRequest, io.EOF, 0, nil, 0},
		"CutInAnswer":      {CutInAnswer, io.EOF, 1, nil, 0},
		"ResetInAnswer":    {ResetInAnswer, syscall.ECONNRESET, 1, nil, 0},
		"Double":           {Double, nil, 2, nil, 0},
		"Hold":             {Hold, nil, 1, []string{":2"}, 0},
		"HoldOnly":         {HoldOnly, silence, 0, []string{":1"}, 0},
		"HoldAndCut":       {HoldAndCut, io.EOF, 0, []string{":1"}, 0},
		"ErrorLine":        {ErrorLine("LOADING soon"), redis.Error("LOADING soon"), 0, nil, 0},
		"HoldThenError":    {HoldThenError("ERR early"), redis.Error("ERR early"), 0, []string{":1"}, 0},
		"ExecuteThenError": {ExecuteThenError("ERR late"), redis.Error("ERR late"), 1, nil, 0},
		"SlowRequest":      {SlowRequest(patience), nil, 1, nil, patience / 2},
		"SlowAnswer":       {SlowAnswer(patience), nil, 1, nil, patience / 2},
		"Delay":            {Delay(2 * patience), nil, 1, nil, 2 * patience},
		"DelayRequest":     {DelayRequest(2 * patience), nil, 1, nil, 2 * patience},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			if errors.Is(tt.err, syscall.ECONNRESET) {
				b = newBenchOn(t, redistest.StartTCP(t))
			}
			done := b.proxy.On(Command("INCR"), 1, tt.action)
			start := time.Now()
			if errors.Is(tt.err, silence) {
				b.incrInVain()
			} else {
				n, err := b.incr()
				require.ErrorIs(t, err, tt.err)
				require.Equal(t, tt.err == nil, n == 1)
				require.GreaterOrEqual(t, time.Since(start), tt.least)
			}
			wait(t, done)
			b.requireN(tt.n)
			require.Equal(t, tt.held, b.proxy.Release())
			require.Empty(t, b.proxy.Release(), "delivered twice")
			b.requireN(tt.n + len(tt.held))
			if b.client.Err() != nil {
				b.client = b.dial()
			}
			n, err := b.incr()
			require.NoError(t, err)
			require.Equal(t, tt.n+len(tt.held)+1, n)
		})
	}
}

// A stream has no gaps: what follows a lost part is lost as well, or it would
// be read in its place.
func TestDropsSilenceTheConnection(t *testing.T) {
	for name, action := range map[string]Action{"request": DropRequest, "answer": DropAnswer, "late request": HoldOnly} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.proxy.On(Command("INCR"), 1, action)
			require.NoError(t, b.client.Send("INCR", "n"))
			require.NoError(t, b.client.Send("PING"))
			require.NoError(t, b.client.Flush())
			_, err := redis.ReceiveWithTimeout(b.client, 100*time.Millisecond)
			b.requireSilence(err)
			require.True(t, b.proxy.Await(Command("PING"), 1, limit), "it was sent")
		})
	}
}

// A message that takes too long has no reply in time. The server executes the
// request if it came whole.
func TestTooSlow(t *testing.T) {
	for n, action := range []Action{SlowRequest(time.Hour), Delay(time.Hour)} {
		b := newBench(t)
		b.proxy.On(Command("INCR"), 1, action)
		b.incrInVain()
		b.awaitN(n)
	}
}

// The server executes a request whose reply waits, and none that waits itself.
func TestDelaysUntilTheTestSaysSo(t *testing.T) {
	for n, delay := range []func(<-chan struct{}) Action{DelayRequestUntil, DelayUntil} {
		b := newBench(t)
		open := make(chan struct{})
		done := b.proxy.On(Command("INCR"), 1, delay(open))
		require.NoError(t, b.client.Send("INCR", "n"))
		require.NoError(t, b.client.Flush())
		require.True(t, b.proxy.Await(Command("INCR"), 1, limit))
		b.awaitN(n)
		close(open)
		got, err := redis.Int(redis.ReceiveWithTimeout(b.client, limit))
		require.NoError(t, err)
		require.Equal(t, 1, got)
		wait(t, done)
	}
}

func TestDelayRequestOutlivesItsClient(t *testing.T) {
	b := newBench(t)
	open := make(chan struct{})
	done := b.proxy.On(Command("INCR"), 1, DelayRequestUntil(open))
	b.incrInVain()
	_ = b.client.Close() // redigo has closed it already
	b.requireN(0)
	close(open)
	wait(t, done)
	b.requireN(1)
}

// Replies that come unasked are taken for those to the next requests.
func TestRepliesTooMany(t *testing.T) {
	b := newBench(t)
	done := b.proxy.On(Command("INCR"), 1, DoubleAnswer)
	for _, want := range []int{1, 1, 2} {
		b.requireIncr(want)
	}
	wait(t, done)
	b.awaitN(3)

	b = newBench(t)
	b.requireIncr(1)
	b.proxy.Say(":7\r\n")
	b.requireIncr(7)
	b.awaitN(2)
}

func TestErrorLineKeepsTheOrderOfAPipeline(t *testing.T) {
	b := newBench(t)
	b.proxy.On(Command("INCR"), 2, ErrorLine("ERR second"))
	for range 3 {
		require.NoError(t, b.client.Send("INCR", "n"))
	}
	require.NoError(t, b.client.Flush())
	n, err := redis.Int(b.client.Receive())
	require.NoError(t, err)
	require.Equal(t, 1, n)
	_, err = b.client.Receive()
	require.EqualError(t, err, "ERR second")
	n, err = redis.Int(b.client.Receive())
	require.NoError(t, err)
	require.Equal(t, 2, n)
}

func (b *bench) subscribe() redis.PubSubConn {
	b.Helper()
	sub := redis.PubSubConn{Conn: b.dial()}
	require.NoError(b, sub.Subscribe("news"))
	require.IsType(b, redis.Subscription{}, sub.ReceiveWithTimeout(limit))
	return sub
}

func TestMessages(t *testing.T) {
	b := newBench(t)
	sub := b.subscribe()
	for _, text := range []string{"a", "b"} {
		b.server.Do(t, "PUBLISH", "news", text)
		got, ok := sub.ReceiveWithTimeout(limit).(redis.Message)
		require.True(t, ok)
		require.Equal(t, text, string(got.Data))
	}
	b.proxy.Stall()
	b.server.Do(t, "PUBLISH", "news", "late")
	err, _ := sub.ReceiveWithTimeout(patience).(error)
	b.requireSilence(err)
}

func TestThenSilent(t *testing.T) {
	b := newBench(t)
	done := b.proxy.On(Command("SUBSCRIBE"), 1, ThenSilent)
	sub := b.subscribe()
	wait(t, done)
	require.Equal(t, int64(1), b.server.Do(t, "PUBLISH", "news", "a"))
	err, _ := sub.ReceiveWithTimeout(patience).(error)
	b.requireSilence(err)
	done = b.proxy.On(Command("INCR"), 1, ThenSilent)
	b.requireIncr(1)
	wait(t, done)
	b.incrInVain()
	b.requireN(2)
}
