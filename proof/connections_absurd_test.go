package proof

import (
	"bytes"
	"context"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

// absurdAnswers are texts that no server sends: numbers and lengths that wrap
// or take all memory, and what is no answer.
var absurdAnswers = map[string]string{
	"a number that wraps to 1": ":18446744073709551617\r\n",
	"a length that wraps":      "$18446744073709551617\r\n1\r\n",
	"a large length":           "$536870913\r\n1\r\n",
	"a length below -1":        "$-2\r\n",
	"a large array":            "*33554432\r\n:1\r\n",
	"an array that wraps":      "*18446744073709551617\r\n:1\r\n",
	"a deep array":             strings.Repeat("*1\r\n", 600_000) + ":1\r\n",
	"no answer":                "HTTP/1.1 200 OK\r\n\r\n",
	"no end":                   "$2\r\n1xyz",
}

// absurdClients are clients whose commands go over each sort of connection.
var absurdClients = map[string]func(testing.TB, *relock.Client) *relock.Client{
	"one connection each": func(_ testing.TB, c *relock.Client) *relock.Client { return c },
	"a shared connection": locktest.Sharing,
}

// In place of an answer comes something absurd: to an acquire, a renewal, a
// release, a message or the first command of a connection. It is never taken
// for a grant, and costs no hold. The lock is free after its release.
func TestAbsurdAnswersCostNoLock(t *testing.T) {
	t.Parallel()
	s := locktest.NewServerWithScripts(t)
	together(t, absurdAnswers, func(t *testing.T, text string) {
		for _, sort := range absurdClients {
			for _, call := range []func(*impostor){
				(*impostor).acquires, (*impostor).extends, (*impostor).renews, (*impostor).unlocks, (*impostor).waits,
				(*impostor).connects,
			} {
				i := newImpostor(t, s, text)
				i.client = sort(t, i.client)
				call(i)
			}
		}
	})
}

// impostor passes on what a client and a server send. Once it is armed, the
// next thing that the server sends becomes something absurd.
type impostor struct {
	testing.TB
	server *redistest.Server
	client *relock.Client
	key    string
	text   string
	armed  atomic.Int32 // for an answer, a message, or not
}

// What is replaced: nothing, an answer about the key, a message, or the first
// answer of all. A slow client sends more than its calls: it greets servers on
// spare connections, and asks whether a connection still answers.
const (
	disarmed = iota
	forAnswer
	forMessage
	forFirst
)

var impostors atomic.Int64

func newImpostor(t testing.TB, s *redistest.Server, text string) *impostor {
	i := &impostor{TB: t, server: s, text: text, key: "absurd " + strings.Repeat("i", int(impostors.Add(1)))}
	front := redistest.Serve(t, redistest.Listen(t), i.forward)
	i.client = serverClient(t, front.Network, front.Address)
	return i
}

func (i *impostor) forward(client net.Conn) {
	server, err := net.Dial(i.server.Network, i.server.Address)
	if err != nil {
		return
	}
	want := &atomic.Int32{} // what the next answer of this connection is
	var group sync.WaitGroup
	defer group.Wait()
	group.Go(func() {
		_, _ = io.Copy(&listener{server, i.key, want}, client)
		_ = server.Close()
	})
	defer client.Close() //nolint:errcheck // the end of the connection
	for buffer := make([]byte, 1<<16); ; {
		n, err := server.Read(buffer)
		if err != nil {
			return
		}
		sent := buffer[:n]
		if next := want.Load(); next != disarmed && i.armed.CompareAndSwap(next, disarmed) ||
			i.armed.CompareAndSwap(forFirst, disarmed) {
			sent = []byte(i.text)
		}
		if _, err := client.Write(sent); err != nil {
			return
		}
	}
}

// listener passes on what a client sends, and notes what it asks for.
type listener struct {
	net.Conn
	key  string
	want *atomic.Int32
}

func (l *listener) Write(data []byte) (int, error) {
	switch {
	case bytes.Contains(bytes.ToUpper(data), []byte("SUBSCRIBE")):
		l.want.Store(forMessage)
	case bytes.Contains(data, []byte(l.key)):
		l.want.Store(forAnswer)
	}
	return l.Conn.Write(data)
}

func (i *impostor) lock(opts ...relock.LockOption) *relock.RedisLock {
	return relock.NewRedisLock(i.key, i.client, append(opts, relock.WithWatchdog(memoryLease))...)
}

// take acquires the lock, and then expects something absurd.
func (i *impostor) take() relock.Hold {
	h := locktest.Take(i, i.lock().TryAcquire)
	i.armed.Store(forAnswer)
	return h
}

// requireMet requires that it came, and that the call has failed.
func (i *impostor) requireMet(err error) {
	i.Helper()
	require.Equal(i, int32(disarmed), i.armed.Load(), "nothing absurd was sent")
	require.Error(i, err)
	if !isUnanswered(err) { // the machine may be too slow to read it
		require.ErrorContains(i, err, "not in the protocol of Redis")
	}
}

// requireFree requires that the lock is free soon, and taken and released.
func (i *impostor) requireFree() {
	i.Helper()
	ctx, cancel := context.WithTimeout(i.Context(), testkit.Patience)
	defer cancel()
	h, err := i.lock(relock.WithBlock()).Acquire(ctx)
	require.NoError(i, err)
	i.requireReleased(h)
}

// requireReleased releases the lock. A release that is not answered in time is
// sent again.
func (i *impostor) requireReleased(h relock.Hold) {
	i.Helper()
	err := h.Unlock(i.Context())
	require.True(i, err == nil || isUnanswered(err), "%v", err)
}

func (i *impostor) acquires() {
	i.requireReleased(locktest.Take(i, i.lock().TryAcquire))
	i.armed.Store(forAnswer)
	_, err := i.lock().TryAcquire(i.Context())
	i.requireMet(err)
	i.requireFree()
}

func (i *impostor) extends() {
	h := i.take()
	i.requireMet(h.Extend(i.Context(), 2*memoryLease))
	require.NoError(i, h.Err(), "it is no loss")
	require.NoError(i, h.Extend(i.Context(), 3*memoryLease))
	i.requireReleased(h)
}

func (i *impostor) renews() {
	h := i.take()
	locktest.RenewNow(h)
	testkit.Eventually(i, testkit.Patience, func() bool { return i.armed.Load() == disarmed }, "it is renewed")
	locktest.Renew(i, h, testkit.Patience)
	require.NoError(i, h.Err(), "it is no loss")
	i.requireReleased(h)
}

func (i *impostor) unlocks() {
	i.requireReleased(i.take())
	require.Equal(i, int32(disarmed), i.armed.Load(), "nothing absurd was sent")
	i.requireFree()
}

func (i *impostor) waits() {
	other := clientOf(i, i.server)
	h := locktest.Take(i, relock.NewRedisLock(i.key, other).TryAcquire)
	lock := i.lock(relock.WithBlock(), relock.WithPollInterval(3*time.Second))
	waiter := testkit.Async(i, func() error { return lock.Lock(i.Context()) })
	testkit.Eventually(i, testkit.Patience, func() bool {
		info, err := other.Inspect(i.Context(), i.key)
		return err == nil && info.Waiting == 1
	}, "it waits")
	locktest.AwaitSubscribed(i, i.server, serverKey(i.key), i.client)
	i.armed.Store(forMessage)
	require.NoError(i, h.Unlock(i.Context()))
	require.NoError(i, testkit.ResultWithin(i, waiter, testkit.Patience))
	require.Equal(i, int32(disarmed), i.armed.Load(), "no message was replaced")
}

func (i *impostor) connects() {
	i.armed.Store(forFirst)
	_, err := i.lock().TryAcquire(i.Context())
	i.requireMet(err)
	i.requireFree()
}
