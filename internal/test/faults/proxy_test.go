package faults

import (
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/relock-go/relock/internal/test/redistest"
)

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
	require.Equal(t, "", do("EVAL", "return redis.status_reply('')", 0))
	require.Equal(t, []any{}, do("KEYS", "none"))
	require.Nil(t, do("BLPOP", "none", "0.01"), "a list that is not there")
	require.Equal(t, int64(-1), do("PTTL", "key"))
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
	done, start := b.proxy.On(Command("incr"), 3, ErrorLine("ERR third")), time.Now()
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
	require.WithinRange(t, seen[1].At, start, time.Now())
}

func TestOldestRuleApplies(t *testing.T) {
	b := newBench(t)
	b.proxy.On(Command("INCR"), 1, ErrorLine("ERR first"))
	b.proxy.On(Any, Every, ErrorLine("ERR every"))
	for _, want := range []string{"ERR first", "ERR every", "ERR every", "ERR every"} {
		_, err := b.incr()
		require.EqualError(t, err, want)
	}
	b.requireN(0)
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
	require.True(t, b.proxy.Await(Command("PING"), 2, limit))
}

func TestStall(t *testing.T) {
	b := newBench(t)
	_, err := b.incr()
	require.NoError(t, err)
	b.proxy.Stall()
	b.proxy.Stall()
	b.incrInVain()
	_ = b.client.Close() // redigo has closed it already
	other := b.dial()    // connections are taken
	b.requireN(1)
	b.proxy.Resume()
	b.proxy.Resume()
	require.Eventually(t, func() bool {
		n, err := redis.Int(other.Do("GET", "n"))
		return err == nil && n == 2
	}, limit, time.Millisecond, "the request did not arrive after its client had closed")
}

func TestStallHoldsAnswersBack(t *testing.T) {
	b := newBench(t)
	open := make(chan struct{})
	b.proxy.On(Command("INCR"), 1, DelayUntil(open))
	result := make(chan error, 1)
	var group sync.WaitGroup
	defer group.Wait()
	group.Go(func() {
		_, err := redis.DoWithTimeout(b.client, 20*patience, "INCR", "n")
		result <- err
	})
	require.Eventually(t, func() bool { return b.server.Do(t, "EXISTS", "n") == int64(1) }, limit, time.Millisecond)
	b.proxy.Stall()
	close(open)
	b.requireSilence(<-result)
}

func TestRefuse(t *testing.T) {
	for name, start := range map[string]func(testing.TB, ...string) *redistest.Server{
		"unix": redistest.Start, "tcp": redistest.StartTCP,
	} {
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

func TestRedirect(t *testing.T) {
	b, second := newBench(t), redistest.Start(t)
	b.requireIncr(1)
	b.proxy.Redirect(second.Address)
	b.requireIncr(2)
	b.client = b.dial()
	b.requireIncr(1)
	b.requireN(2)
	require.Equal(t, []byte("1"), second.Do(t, "GET", "n"))
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
		for i, action := range []Action{
			Delay(time.Hour), DelayRequest(time.Hour), DropRequest, HoldOnly,
			SlowAnswer(time.Hour), SlowRequest(time.Hour), forward,
		} {
			proxy.On(Command("INCR"), i+1, action)
			conn, err := redis.Dial(proxy.Network, proxy.Address)
			require.NoError(t, err)
			require.NoError(t, conn.Send("INCR", "n"))
			require.NoError(t, conn.Flush())
			conns = append(conns, conn)
			require.True(t, proxy.Await(Command("INCR"), i+1, limit))
		}
		proxy.Stall()
	})
	for _, conn := range conns {
		require.NoError(t, conn.Close())
	}
	goleak.VerifyNone(t, before)
}
