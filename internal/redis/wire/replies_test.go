package wire

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"regexp"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/redis/driver"
	"github.com/relock-go/relock/internal/test/testkit"
)

// written is a connection that keeps what is written.
type written struct {
	testkit.TextConn
	out bytes.Buffer
}

func (w *written) Write(p []byte) (int, error) { return w.out.Write(p) }

type asText struct{ inner any }

func (a asText) RedisArg() any { return a.inner }

// Arguments of a user are written as redigo would write them, though their
// methods have run before.
func FuzzResolvedArgumentsAreWrittenAsRedigoWritesThem(f *testing.F) {
	f.Add("SET", "key", []byte("value"), int64(-30000), 1.5, true)
	f.Add("EVALSHA", "", []byte{}, int64(0), -1e300, false)
	f.Add("ECHO", "\r\n$", []byte{0, 255}, int64(1)<<62, 0.1, true)
	f.Fuzz(func(t *testing.T, command, text string, raw []byte, n int64, x float64, yes bool) {
		args := []any{text, raw, n, int(n), x, yes, nil, asText{
			text,
		}, asText{n}, asText{asText{n}}, uint8(n), time.Duration(n), []string{text}, errors.New(text)}
		want, got := &written{}, &written{}
		theirs, ours := redis.NewConn(want, 0, 0), NewConn(got, nil, false, time.Minute)
		require.NoError(t, theirs.Send(command, args...))
		require.NoError(t, theirs.Flush())
		ours.add(&driver.Request{Cmd: command, Args: driver.Resolved(args)})
		require.NoError(t, ours.Flush())
		require.Equal(t, want.out.String(), got.out.String())
	})
}

// hugeLength is one for which redigo would allocate all of it.
var hugeLength = regexp.MustCompile(`[$*][0-9]{6}`)

// wrapped is a number that redigo takes for a smaller one.
var wrapped = regexp.MustCompile(`:[^\n]*[0-9]{19}`)

// An answer counts as whole when redigo can read all of it, however the bytes
// come.
func FuzzAnswersAreWholeWhenRedigoCanReadThem(f *testing.F) {
	for _, text := range []string{
		"", "+OK\r\n", "+\r\n", "+PONG\r\n", "-ERR 5 *3 $4\r\n", ":-12\r\n:3\r\n", ":\r\n", ":-\r\n", ":1-2\r\n",
		"$-1\r\n$0\r\n\r\n$3\r\n$1\r\r\n", "$12\r\n+OK\r\n*9\r\n$1\n\r\n+x\r\n", "*-1\r\n*0\r\n",
		"*2\r\n*2\r\n$1\r\nx\r\n*0\r\n:1\r\n",
		"*3\r\n-ERR\r\n$-1\r\n*-1\r\n", "$\r\n", "$1x\r\nab\r\n", "$2\r\nabc\r\n", "+OK\n", "\r\n", "?\r\n",
		"*2\r\n:1\r\n?\r\n", "$-0\r\n", "*-2\r\n",
		":9223372036854775807\r\n:-9223372036854775807\r\n:00000000000000000000001\r\n", ":18446744073709551617\r\n",
	} {
		f.Add([]byte(text), uint8(0))
		f.Add([]byte(text), uint8(1))
	}
	f.Fuzz(func(t *testing.T, text []byte, size uint8) {
		if hugeLength.Match(text) {
			return
		}
		ours := NewConn(testkit.TextConn{Text: pieces{bytes.NewReader(text), int(size)}}, nil, false, 0)
		theirs := redis.NewConn(testkit.TextConn{Text: bytes.NewReader(text)}, 0, 0)
		for {
			got, gotErr := ours.receive(0)
			if errors.Is(gotErr, ErrAbsurd) {
				require.Regexp(t, wrapped, string(text))
				return
			}
			want, wantErr := theirs.Receive()
			var line redis.Error
			if errors.As(wantErr, &line) {
				require.Equal(t, wantErr, gotErr)
				continue
			}
			require.Equal(t, wantErr == nil, gotErr == nil, "%v, %v", gotErr, wantErr)
			require.Equal(t, want, got)
			if wantErr != nil {
				return
			}
		}
	})
}

// pieces reads so many bytes at a time; 0 is no limit.
type pieces struct {
	io.Reader

	size int
}

func (p pieces) Read(b []byte) (int, error) {
	if p.size > 0 {
		b = b[:min(len(b), p.size)]
	}
	return p.Reader.Read(b)
}

// A large answer, and many small ones, come through the buffer.
func TestRepliesOfAnySize(t *testing.T) {
	t.Parallel()
	large := bytes.Repeat([]byte("x\r\n"), 100_000)
	text := fmt.Appendf(nil, "$%d\r\n%s\r\n", len(large), large)
	for range 10_000 {
		text = append(text, ":1\r\n"...)
	}
	for _, size := range []int{0, 700, 5000} {
		c := NewConn(testkit.TextConn{Text: pieces{bytes.NewReader(text), size}}, nil, false, 0)
		got, err := c.receive(0)
		require.NoError(t, err)
		require.Equal(t, large, got)
		for range 10_000 {
			got, err = c.receive(0)
			require.NoError(t, err)
			require.Equal(t, int64(1), got)
		}
		_, err = c.receive(0)
		require.ErrorIs(t, err, io.EOF)
		require.ErrorIs(t, c.Err(), net.ErrClosed)
	}
}

// A context that is cancelled as its call ends must not interrupt the next
// call on the connection. So a guard that is being called is not used again.
func TestGuardThatIsCalledIsNotKept(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	c := &Conn{}
	g := c.guard(ctx)
	g.end()
	require.Same(t, g, c.guard(ctx), "kept for the next call")
	g.mu.Lock()
	cancel()
	require.True(t, g.isCalled())
	g.over = true // before interrupt goes on: c has no socket
	g.mu.Unlock()
	g.end()
	require.Nil(t, c.guarded)
	require.Nil(t, c.guard(context.Background()))
}
