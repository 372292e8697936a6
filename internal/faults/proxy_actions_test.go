package faults

import (
	"io"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"
)

func TestDropRequest(t *testing.T) {
	b := newBench(t)
	done := b.proxy.On(Command("INCR"), 1, DropRequest)
	b.incrInVain()
	wait(t, done)
	b.requireN(0)
}

func TestDropAnswer(t *testing.T) {
	b := newBench(t)
	done := b.proxy.On(Command("INCR"), 1, DropAnswer)
	b.incrInVain()
	wait(t, done)
	b.requireN(1)
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

func TestCutBefore(t *testing.T) {
	b := newBench(t)
	done := b.proxy.On(Command("INCR"), 1, CutBefore)
	_, err := b.incr()
	require.ErrorIs(t, err, io.EOF)
	wait(t, done)
	b.requireN(0)
}

func TestCutAfter(t *testing.T) {
	b := newBench(t)
	done := b.proxy.On(Command("INCR"), 1, CutAfter)
	_, err := b.incr()
	require.ErrorIs(t, err, io.EOF)
	wait(t, done)
	b.requireN(1)
}

func TestDelay(t *testing.T) {
	b := newBench(t)
	done := b.proxy.On(Command("INCR"), 1, Delay(2*patience))
	start := time.Now()
	_, err := b.client.Do("INCR", "n")
	require.NoError(t, err)
	require.GreaterOrEqual(t, time.Since(start), 2*patience)
	wait(t, done)
}

func TestDelayExecutesAtOnce(t *testing.T) {
	b := newBench(t)
	b.proxy.On(Command("INCR"), 1, Delay(time.Hour))
	b.incrInVain()
	b.awaitN(1)
}

func TestDelayRequestOutlivesItsClient(t *testing.T) {
	b := newBench(t)
	const late = 20 * patience
	start := time.Now()
	done := b.proxy.On(Command("INCR"), 1, DelayRequest(late))
	b.incrInVain()
	_ = b.client.Close() // redigo has closed it already
	b.requireN(0)
	wait(t, done)
	require.GreaterOrEqual(t, time.Since(start), late)
	b.requireN(1)
}

func TestDouble(t *testing.T) {
	b := newBench(t)
	done := b.proxy.On(Command("INCR"), 1, Double)
	n, err := b.incr()
	require.NoError(t, err)
	require.Equal(t, 1, n)
	wait(t, done)
	b.requireN(2)
	n, err = b.incr()
	require.NoError(t, err)
	require.Equal(t, 3, n, "an answer too many")
}

func TestDoubleAnswer(t *testing.T) {
	b := newBench(t)
	done := b.proxy.On(Command("INCR"), 1, DoubleAnswer)
	for _, want := range []int{1, 1, 2} {
		n, err := b.incr()
		require.NoError(t, err)
		require.Equal(t, want, n, "always one behind")
	}
	wait(t, done)
	b.awaitN(3)
}

func TestSay(t *testing.T) {
	b := newBench(t)
	n, err := b.incr()
	require.NoError(t, err)
	require.Equal(t, 1, n)
	b.proxy.Say(":7\r\n")
	n, err = b.incr()
	require.NoError(t, err)
	require.Equal(t, 7, n)
	b.awaitN(2)
}

func TestHold(t *testing.T) {
	b := newBench(t)
	done := b.proxy.On(Command("INCR"), 1, Hold)
	for want := 1; want <= 2; want++ {
		n, err := b.incr()
		require.NoError(t, err)
		require.Equal(t, want, n)
	}
	wait(t, done)
	require.Equal(t, []string{":3"}, b.proxy.Release())
	b.requireN(3)
	require.Empty(t, b.proxy.Release(), "delivered twice")
}

func TestHoldOnly(t *testing.T) {
	b := newBench(t)
	done := b.proxy.On(Command("INCR"), 1, HoldOnly)
	b.incrInVain()
	wait(t, done)
	b.requireN(0)
	require.Equal(t, []string{":1"}, b.proxy.Release())
	b.requireN(1)
}

func TestHoldAndCut(t *testing.T) {
	b := newBench(t)
	done := b.proxy.On(Command("INCR"), 1, HoldAndCut)
	_, err := b.incr()
	require.ErrorIs(t, err, io.EOF)
	wait(t, done)
	b.requireN(0)
	require.Equal(t, []string{":1"}, b.proxy.Release())
	b.requireN(1)
}

func TestErrorLine(t *testing.T) {
	b := newBench(t)
	done := b.proxy.On(Command("INCR"), 1, ErrorLine("LOADING soon"))
	_, err := b.incr()
	require.Equal(t, redis.Error("LOADING soon"), err)
	wait(t, done)
	b.requireN(0)
	_, err = b.incr()
	require.NoError(t, err)
}

func TestExecuteThenError(t *testing.T) {
	b := newBench(t)
	done := b.proxy.On(Command("INCR"), 1, ExecuteThenError("ERR late"))
	_, err := b.incr()
	require.Equal(t, redis.Error("ERR late"), err)
	wait(t, done)
	b.requireN(1)
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
	n, err := b.incr()
	require.NoError(t, err)
	require.Equal(t, 1, n)
	wait(t, done)
	b.incrInVain()
	b.requireN(2)
}
