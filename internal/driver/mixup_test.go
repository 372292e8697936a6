package driver_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/locktest"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/testkit"
)

// pathOfCalls is a way for calls to wait for their answers: each leaves an answer that comes too late to somebody else.
type pathOfCalls struct {
	name   string
	client func(t testing.TB, s *redistest.Server) *relock.Client
	canEnd bool // the caller's context
}

var pathsOfCalls = []pathOfCalls{
	{"own pool, context that can end", ownPoolOfOne, true},
	{"own pool, context that cannot end", ownPoolOfOne, false},
	{"encrypted, context that can end", encryptedPoolOfOne, true},
	{"user's pool, context that can end", userPoolOfOne, true},
	{"user's pool, context that cannot end", userPoolOfOne, false},
	{"shared connection, context that can end", sharedConnection, true},
	{"shared connection, context that cannot end", sharedConnection, false},
	{"encrypted shared connection, context that can end", func(t testing.TB, s *redistest.Server) *relock.Client {
		return locktest.Sharing(encryptedPoolOfOne(t, s))
	}, true},
	{"shared connection of a user's pool, context that can end", func(t testing.TB, s *redistest.Server) *relock.Client { return locktest.Sharing(userPoolOfOne(t, s)) }, true},
}

func sharedConnection(t testing.TB, s *redistest.Server) *relock.Client {
	return locktest.Sharing(ownPoolOfOne(t, s))
}

// poolOfOne has one connection, so that the next call gets the one before's.
func ownPoolOfOne(t testing.TB, s *redistest.Server) *relock.Client {
	return locktest.NewTestClient(t, s, poolOfOne()...)
}

func poolOfOne() []relock.ClientOption {
	return []relock.ClientOption{relock.WithMaxActive(1), relock.WithMaxIdle(1), relock.WithWaitMode(), relock.WithCommandTimeout(locktest.AnswerLimit)}
}

func encryptedPoolOfOne(t testing.TB, s *redistest.Server) *relock.Client {
	a := newAuthority(t)
	behind := &redistest.Server{Network: "tcp", Address: encryptedFront(t, a, s)}
	return locktest.NewTestClient(t, behind, append(poolOfOne(), relock.WithTLS(&tls.Config{RootCAs: a.pool()}))...)
}

// encryptedFront takes encrypted connections for a server that knows none, and returns its address.
func encryptedFront(t testing.TB, a *authority, s *redistest.Server) string {
	a.issue(t, "server", &x509.Certificate{
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
	cert, err := tls.LoadX509KeyPair(a.path("server.crt"), a.path("server.key"))
	require.NoError(t, err)
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12})
	require.NoError(t, err)
	var group sync.WaitGroup
	group.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			group.Go(func() { join(client, s) })
		}
	})
	t.Cleanup(group.Wait)
	t.Cleanup(func() { _ = listener.Close() })
	return listener.Addr().String()
}

// join passes on what a client and the server say, until one of them ends.
func join(client net.Conn, s *redistest.Server) {
	server, err := net.Dial(s.Network, s.Address)
	if err != nil {
		_ = client.Close()
		return
	}
	var group sync.WaitGroup
	pass := func(to, from net.Conn) {
		_, _ = io.Copy(to, from)
		_, _ = to.Close(), from.Close()
	}
	group.Go(func() { pass(server, client) })
	pass(client, server)
	group.Wait()
}

func userPoolOfOne(t testing.TB, s *redistest.Server) *relock.Client {
	pool := &redis.Pool{MaxActive: 1, MaxIdle: 1, Wait: true, Dial: func() (redis.Conn, error) { return redis.Dial(s.Network, s.Address) }}
	t.Cleanup(func() { require.NoError(t, pool.Close()) })
	c, err := relock.NewClientPool(pool, relock.WithKeyPrefix("test:"+uuid.NewString()+":"), relock.WithCommandTimeout(locktest.AnswerLimit))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

// An answer that comes when its caller has left, for the command timeout or the end of its context, is never taken for the answer to the
// next command: a lock that is held stays refused though "OK" is on its way, and scripts get what they asked for.
func TestLateAnswersAreNotMixedUp(t *testing.T) {
	t.Parallel()
	s := locktest.NewFaultServer(t)
	var cells []locktest.CellRun
	for _, path := range pathsOfCalls {
		for _, leaving := range []struct {
			name string
			late time.Duration // of the answer
			ends bool          // the context, before the answer comes
		}{
			{"left for the command timeout", 3 * locktest.AnswerLimit, false},
			{"left for the end of the context", 3 * locktest.AnswerLimit / 5, true},
		} {
			if leaving.ends && !path.canEnd {
				continue
			}
			cells = append(cells, locktest.CellRun{Name: path.name + "/" + leaving.name, Run: func(t testing.TB) {
				m := newMixUp(t, s, path)
				m.requireOwnAnswers(m.leave(leaving.late, leaving.ends))
			}})
		}
	}
	locktest.Together(t, cells)
}

// mixUp is a client with one connection, behind a proxy, and two locks of which another holds one.
type mixUp struct {
	testing.TB
	proxy       *faults.Proxy
	client      *relock.Client
	canEnd      bool // the caller's context
	free, taken *relock.RedisLock
	values      *relock.Script
}

func newMixUp(t testing.TB, s *redistest.Server, path pathOfCalls) *mixUp {
	m := &mixUp{TB: t, proxy: faults.Start(t, s.Network, s.Address), values: relock.NewScript("return ARGV[1]")}
	m.client, m.canEnd = path.client(t, &redistest.Server{Network: m.proxy.Network, Address: m.proxy.Address}), path.canEnd
	m.free, m.taken = relock.NewRedisLock("free", m.client), relock.NewRedisLock("taken", m.client)
	other := locktest.NewTestClient(t, s, relock.WithKeyPrefix(locktest.Prefix(m.client)))
	require.NoError(t, relock.NewRedisLock("taken", other).Lock(t.Context()))
	_, err := m.client.Eval(t.Context(), m.values, nil, "first") // the connection is there, and the script
	require.NoError(t, err)
	return m
}

// leave asks for the free lock and leaves before the server's OK arrives, as it does when the channel is closed.
func (m *mixUp) leave(late time.Duration, ends bool) (came <-chan struct{}) {
	ctx, cancel := context.WithCancel(m.Context())
	defer cancel()
	if !m.canEnd {
		ctx = locktest.Unbounded(m)
	}
	came = m.proxy.On(faults.Command("SET"), 1, faults.Delay(late))
	result := testkit.Async(m, func() error { return m.free.TryLock(ctx) })
	require.True(m, m.proxy.Await(faults.Command("SET"), 1, locktest.CellPatience))
	if ends {
		cancel()
	}
	err := testkit.ResultWithin(m, result, locktest.CellPatience)
	require.Error(m, err)
	require.NotErrorIs(m, err, relock.ErrLockAcquiredByOthers)
	return came
}

// requireOwnAnswers makes the next calls, while the late answer is on its way and after it.
func (m *mixUp) requireOwnAnswers(came <-chan struct{}) {
	for i, after := 0, 0; after < 2; i++ {
		select {
		case <-came:
			after++
		default:
		}
		require.ErrorIs(m, m.taken.TryLock(m.Context()), relock.ErrLockAcquiredByOthers)
		for k := range 10 {
			want := fmt.Sprintf("answer %d of %d", k, i)
			got, err := m.client.Eval(m.Context(), m.values, nil, want)
			require.NoError(m, err)
			require.Equal(m, want, got)
		}
		time.Sleep(locktest.AnswerLimit / 5) // the late answer comes in one of them
	}
	require.ErrorIs(m, m.free.Unlock(m.Context()), relock.ErrNotHeld)
	testkit.Eventually(m, locktest.CleanWithin, func() bool { return m.free.TryLock(m.Context()) == nil }, "what nobody was told of is free again")
	require.NoError(m, m.free.Unlock(m.Context()))
}
