package faults

import (
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// rawIncr sends an INCR over a connection that is read byte by byte.
func (b *bench) rawIncr() net.Conn {
	b.Helper()
	conn, err := net.Dial(b.proxy.Network, b.proxy.Address)
	require.NoError(b, err)
	b.Cleanup(func() { _ = conn.Close() })
	_, err = conn.Write([]byte("*2\r\n$4\r\nINCR\r\n$1\r\nn\r\n"))
	require.NoError(b, err)
	return conn
}

// Half of an answer is there before the end.
func TestHalfAnAnswerComesBeforeTheCut(t *testing.T) {
	b := newBench(t)
	b.proxy.On(Command("INCR"), 1, CutInAnswer)
	got, err := io.ReadAll(b.rawIncr())
	require.NoError(t, err)
	require.Equal(t, ":1", string(got))
}

func TestSlowAnswer(t *testing.T) {
	b := newBench(t)
	b.proxy.On(Command("INCR"), 1, SlowAnswer(time.Hour))
	conn := b.rawIncr()
	text := make([]byte, 100)
	n, err := conn.Read(text)
	require.NoError(t, err)
	require.Equal(t, ":", string(text[:n]), "the first byte, and no more")
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(patience)))
	_, err = conn.Read(text)
	b.requireSilence(err)
	b.requireN(1)
}
