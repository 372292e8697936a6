package faults

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/relock-go/relock/internal/redistest"
)

const patience = 50 * time.Millisecond // how long a test waits for an answer that must not come

// bench is a server, a proxy in front of it and a client.
type bench struct {
	*testing.T
	server *redistest.Server
	proxy  *Proxy
	client redis.Conn
}

func newBench(t *testing.T) *bench {
	b := &bench{T: t, server: redistest.Start(t)}
	b.proxy = Start(t, b.server.Network, b.server.Address)
	b.client = b.dial()
	return b
}

func (b *bench) dial() redis.Conn {
	b.Helper()
	conn, err := redis.Dial(b.proxy.Network, b.proxy.Address)
	require.NoError(b, err)
	b.Cleanup(func() { _ = conn.Close() })
	return conn
}

// dialRaw is a connection to the proxy without a client.
func (b *bench) dialRaw() net.Conn {
	b.Helper()
	conn, err := net.Dial(b.proxy.Network, b.proxy.Address)
	require.NoError(b, err)
	b.Cleanup(func() { _ = conn.Close() })
	return conn
}

// incr adds one to n through the proxy.
func (b *bench) incr() (int, error) {
	return redis.Int(redis.DoWithTimeout(b.client, patience, "INCR", "n"))
}

// requireN checks what the server has counted.
func (b *bench) requireN(want int) {
	b.Helper()
	n, err := redis.Int(b.server.Try(b, "GET", "n"))
	if !errors.Is(err, redis.ErrNil) {
		require.NoError(b, err)
	}
	require.Equal(b, want, n)
}

func (b *bench) requireSilence(err error) {
	b.Helper()
	require.ErrorIs(b, err, os.ErrDeadlineExceeded)
}

func wait(t *testing.T, done <-chan struct{}) {
	t.Helper()
	select {
	case <-done:
	case <-time.After(5 * time.Second):
		require.FailNow(t, "the action was not carried out")
	}
}

func TestForwardsRequestsAndAnswersOfAllKinds(t *testing.T) {
	b := newBench(t)
	do := func(command string, args ...any) any {
		reply, err := b.client.Do(command, args...)
		require.NoError(t, err)
		return reply
	}
	require.Equal(t, "OK", do("SET", "key", "a\r\nb\x00"))
	require.Equal(t, []byte("a\r\nb\x00"), do("GET", "key"))
	require.Nil(t, do("GET", "none"))
	require.Equal(t, []byte(""), do("ECHO", ""))
	require.Equal(t, int64(1), do("EXISTS", "key"))
	require.Equal(t, []any{int64(1), []any{[]byte("x"), []any{}, nil}, "fine"},
		do("EVAL", "return {1, {'x', {}, false}, redis.status_reply('fine')}", 0))
	_, err := b.client.Do("EVAL", "return redis.error_reply('NO way')", 0)
	require.EqualError(t, err, "NO way")
	_, err = b.client.Do("LPUSH", "key", "x")
	require.ErrorContains(t, err, "WRONGTYPE")
}

func TestForwardsPipelines(t *testing.T) {
	b := newBench(t)
	for range 100 {
		require.NoError(t, b.client.Send("INCR", "n"))
	}
	require.NoError(t, b.client.Flush())
	for i := range 100 {
		n, err := redis.Int(b.client.Receive())
		require.NoError(t, err)
		require.Equal(t, i+1, n)
	}
}

func TestCountsRequestsOverAllConnections(t *testing.T) {
	b := newBench(t)
	done := b.proxy.On(Command("incr"), 3, ErrorLine("ERR third"))
	for i := range 5 {
		conn := b.dial()
		_, err := conn.Do("PING")
		require.NoError(t, err)
		_, err = conn.Do("INCR", "n")
		require.Equal(t, i == 2, err != nil)
	}
	wait(t, done)
	b.requireN(4)
	require.Equal(t, 5, b.proxy.Count(Command("INCR")))
	seen := b.proxy.Seen()
	require.Len(t, seen, 10)
	require.Equal(t, "INCR", seen[1].Name)
	require.Equal(t, []string{"INCR", "n"}, seen[1].Args)
	require.WithinDuration(t, time.Now(), seen[1].At, 10*time.Second)
}

func TestEveryAppliesToAll(t *testing.T) {
	b := newBench(t)
	b.proxy.On(Command("INCR"), Every, ErrorLine("ERR no"))
	for range 3 {
		_, err := b.incr()
		require.EqualError(t, err, "ERR no")
	}
	b.requireN(0)
}

func TestOldestRuleApplies(t *testing.T) {
	b := newBench(t)
	b.proxy.On(Command("INCR"), 1, ErrorLine("ERR first"))
	b.proxy.On(Any, Every, ErrorLine("ERR second"))
	_, err := b.incr()
	require.EqualError(t, err, "ERR first")
	_, err = b.incr()
	require.EqualError(t, err, "ERR second")
}

func TestScriptMatchesBothWaysToCallIt(t *testing.T) {
	b := newBench(t)
	script := redis.NewScript(0, "return 7")
	match := Script(script.Hash())
	n, err := redis.Int(script.Do(b.client)) // EVALSHA, which is not known yet, and EVAL
	require.NoError(t, err)
	require.Equal(t, 7, n)
	_, err = script.Do(b.client)
	require.NoError(t, err)
	_, err = b.client.Do("EVAL", "return 8", 0)
	require.NoError(t, err)
	_, err = b.client.Do("PING")
	require.NoError(t, err)
	require.Equal(t, 3, b.proxy.Count(match))
}

func TestAwait(t *testing.T) {
	b := newBench(t)
	_, err := b.client.Do("PING")
	require.NoError(t, err)
	require.True(t, b.proxy.Await(Command("PING"), 1, 0))
	require.False(t, b.proxy.Await(Command("PING"), 2, patience))
	var group sync.WaitGroup
	defer group.Wait()
	group.Go(func() { _, _ = b.client.Do("PING") })
	require.True(t, b.proxy.Await(Command("PING"), 2, 5*time.Second))
}

func TestDropRequest(t *testing.T) {
	b := newBench(t)
	done := b.proxy.On(Command("INCR"), 1, DropRequest)
	_, err := b.incr()
	b.requireSilence(err)
	wait(t, done)
	b.requireN(0)
}

func TestDropAnswer(t *testing.T) {
	b := newBench(t)
	done := b.proxy.On(Command("INCR"), 1, DropAnswer)
	_, err := b.incr()
	b.requireSilence(err)
	wait(t, done)
	b.requireN(1)
}

// A stream has no holes: what comes after something that was lost is lost as well, or it would be taken for it.
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
			require.Equal(t, 1, b.proxy.Count(Command("PING")))
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
	_, err := b.incr()
	b.requireSilence(err)
	b.requireN(1)
}

func TestDelayRequestOutlivesItsClient(t *testing.T) {
	b := newBench(t)
	start := time.Now()
	done := b.proxy.On(Command("INCR"), 1, DelayRequest(2*patience))
	_, err := b.incr()
	b.requireSilence(err)
	_ = b.client.Close() // redigo has closed it already
	b.requireN(0)
	wait(t, done)
	require.GreaterOrEqual(t, time.Since(start), 2*patience)
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
	_, err := b.incr()
	b.requireSilence(err)
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

func TestStall(t *testing.T) {
	b := newBench(t)
	_, err := b.incr()
	require.NoError(t, err)
	b.proxy.Stall()
	b.proxy.Stall()
	_, err = b.incr()
	b.requireSilence(err)
	_ = b.client.Close() // redigo has closed it already
	other := b.dial()    // connections are taken
	b.requireN(1)
	b.proxy.Resume()
	b.proxy.Resume()
	require.Eventually(t, func() bool {
		n, err := redis.Int(other.Do("GET", "n"))
		return err == nil && n == 2
	}, 5*time.Second, time.Millisecond, "the request did not arrive after its client had gone")
}

func TestStallHoldsAnswersBack(t *testing.T) {
	b := newBench(t)
	b.proxy.On(Command("INCR"), 1, Delay(patience))
	result := make(chan error, 1)
	var group sync.WaitGroup
	defer group.Wait()
	group.Go(func() {
		_, err := redis.DoWithTimeout(b.client, 4*patience, "INCR", "n")
		result <- err
	})
	require.Eventually(t, func() bool { return b.server.Do(t, "EXISTS", "n") == int64(1) }, 5*time.Second, time.Millisecond)
	b.proxy.Stall()
	b.requireSilence(<-result)
}

func TestRefuse(t *testing.T) {
	for name, start := range map[string]func(testing.TB, ...string) *redistest.Server{"unix": redistest.Start, "tcp": redistest.StartTCP} {
		t.Run(name, func(t *testing.T) {
			server := start(t)
			proxy := Start(t, server.Network, server.Address)
			conn, err := redis.Dial(proxy.Network, proxy.Address)
			require.NoError(t, err)
			defer conn.Close() //nolint:errcheck // cut
			_, err = conn.Do("PING")
			require.NoError(t, err)

			proxy.Refuse()
			proxy.Refuse()
			_, err = conn.Do("PING")
			require.Error(t, err)
			_, err = net.Dial(proxy.Network, proxy.Address)
			require.ErrorContains(t, err, "refused")

			proxy.Accept()
			proxy.Accept()
			conn, err = redis.Dial(proxy.Network, proxy.Address)
			require.NoError(t, err)
			defer conn.Close() //nolint:errcheck // the answer counts
			_, err = conn.Do("PING")
			require.NoError(t, err)
		})
	}
}

func TestEndOfTheServerEndsTheConnection(t *testing.T) {
	b := newBench(t)
	_, err := b.client.Do("PING")
	require.NoError(t, err)
	b.server.Kill(t)
	_, err = b.client.Receive()
	require.ErrorIs(t, err, io.EOF)
	conn := b.dial()
	_, err = conn.Do("PING")
	require.Error(t, err)
}

func TestStopsInTheMiddleOfEverything(t *testing.T) {
	server := redistest.Start(t)
	before := goleak.IgnoreCurrent()
	var conns []redis.Conn
	t.Run("proxy", func(t *testing.T) {
		proxy := Start(t, server.Network, server.Address)
		for i, action := range []Action{Delay(time.Hour), DelayRequest(time.Hour), DropRequest, HoldOnly, SlowAnswer(time.Hour), SlowRequest(time.Hour), forward} {
			proxy.On(Command("INCR"), i+1, action)
			conn, err := redis.Dial(proxy.Network, proxy.Address)
			require.NoError(t, err)
			require.NoError(t, conn.Send("INCR", "n"))
			require.NoError(t, conn.Flush())
			conns = append(conns, conn)
			require.True(t, proxy.Await(Command("INCR"), i+1, 5*time.Second))
		}
		proxy.Stall()
	})
	for _, conn := range conns {
		require.NoError(t, conn.Close())
	}
	goleak.VerifyNone(t, before)
}
