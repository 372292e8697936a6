package faults

import (
	"io"
	"syscall"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/redistest"
)

func TestCutInRequest(t *testing.T) {
	b := newBench(t)
	done := b.proxy.On(Command("INCR"), 1, CutInRequest)
	_, err := b.incr()
	require.ErrorIs(t, err, io.EOF)
	wait(t, done)
	b.requireN(0)
	b.client = b.dial()
	_, err = b.incr()
	require.NoError(t, err)
	b.requireN(1)
}

func TestCutInAnswer(t *testing.T) {
	b := newBench(t)
	done := b.proxy.On(Command("INCR"), 1, CutInAnswer)
	require.NoError(t, b.client.Send("INCR", "n"))
	require.NoError(t, b.client.Flush())
	_, err := b.client.Receive()
	require.ErrorIs(t, err, io.EOF)
	wait(t, done)
	b.requireN(1)
}

// Half of an answer is there before the end.
func TestHalfAnAnswerComesBeforeTheCut(t *testing.T) {
	b := newBench(t)
	b.proxy.On(Command("INCR"), 1, CutInAnswer)
	conn := b.dialRaw()
	_, err := conn.Write([]byte("*2\r\n$4\r\nINCR\r\n$1\r\nn\r\n"))
	require.NoError(t, err)
	got, err := io.ReadAll(conn)
	require.NoError(t, err)
	require.Equal(t, ":1", string(got))
}

func TestResetInAnswer(t *testing.T) {
	server := redistest.StartTCP(t)
	proxy := Start(t, server.Network, server.Address)
	done := proxy.On(Command("INCR"), 1, ResetInAnswer)
	conn, err := redis.Dial(proxy.Network, proxy.Address)
	require.NoError(t, err)
	defer conn.Close() //nolint:errcheck // reset
	_, err = conn.Do("INCR", "n")
	require.ErrorIs(t, err, syscall.ECONNRESET)
	wait(t, done)
	require.Equal(t, []byte("1"), server.Do(t, "GET", "n"))
}

func TestSlowAnswer(t *testing.T) {
	b := newBench(t)
	b.proxy.On(Command("INCR"), 1, SlowAnswer(time.Hour))
	conn := b.dialRaw()
	_, err := conn.Write([]byte("*2\r\n$4\r\nINCR\r\n$1\r\nn\r\n"))
	require.NoError(t, err)
	text := make([]byte, 100)
	n, err := conn.Read(text)
	require.NoError(t, err)
	require.Equal(t, ":", string(text[:n]), "the first byte, and no more")
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(patience)))
	_, err = conn.Read(text)
	b.requireSilence(err)
	b.requireN(1)
}

func TestSlowRequest(t *testing.T) {
	b := newBench(t)
	b.proxy.On(Command("INCR"), 1, SlowRequest(time.Hour))
	b.incrInVain()
	b.requireN(0)
}

func TestSlowMessagesArriveWhole(t *testing.T) {
	for name, action := range map[string]Action{"request": SlowRequest(patience), "answer": SlowAnswer(patience)} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			done := b.proxy.On(Command("INCR"), 1, action)
			start := time.Now()
			n, err := redis.Int(b.client.Do("INCR", "n"))
			require.NoError(t, err)
			require.Equal(t, 1, n)
			require.GreaterOrEqual(t, time.Since(start), patience/2)
			wait(t, done)
			b.requireN(1)
		})
	}
}
