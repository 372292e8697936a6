package conns_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/redis/driver"
	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/test/faults"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

// poolsOfOne have one connection each, so that the next call gets that of the
// one before.
var poolsOfOne = map[string]func(t testing.TB, s *redistest.Server) *relock.Client{
	"own pool": func(t testing.TB, s *redistest.Server) *relock.Client {
		return locktest.NewTestClient(t, s, ofOne...)
	},
	"encrypted": encryptedPoolOfOne,
	"user's pool": func(t testing.TB, s *redistest.Server) *relock.Client {
		return locktest.AsUserPool(t, s, &redis.Pool{MaxActive: 1, MaxIdle: 1, Wait: true},
			relock.WithKeyPrefix("test:"+uuid.NewString()+":"), relock.WithCommandTimeout(locktest.AnswerLimit))
	},
}

var ofOne = []relock.ClientOption{
	relock.WithMaxActive(1), relock.WithMaxIdle(1), relock.WithWaitMode(), relock.WithCommandTimeout(locktest.AnswerLimit),
}

func encryptedPoolOfOne(t testing.TB, s *redistest.Server) *relock.Client {
	a := newAuthority(t)
	return locktest.NewTestClient(t, encryptedFront(t, a, s),
		append(slices.Clone(ofOne), relock.WithTLS(&tls.Config{RootCAs: a.pool()}))...)
}

// encryptedFront takes encrypted connections for a server that knows none.
func encryptedFront(t testing.TB, a *authority, s *redistest.Server) *redistest.Server {
	listener := tls.NewListener(redistest.Listen(t), &tls.Config{Certificates: a.pair(t), MinVersion: tls.VersionTLS12})
	return redistest.Serve(t, listener, func(client net.Conn) { redistest.Forward(client, s) })
}

// An answer that comes when its caller has left, for the command timeout or the
// end of its context, is never taken for the answer to the next command. A lock
// that is held stays refused though "OK" is on its way, and scripts get what
// they asked for.
func TestLateAnswersAreNotMixedUp(t *testing.T) {
	t.Parallel()
	s := locktest.NewServerWithScripts(t)
	var cells []locktest.Subtest
	add := func(name string, client func(testing.TB, *redistest.Server) *relock.Client, shared, canEnd, ends bool) {
		late := 3 * locktest.AnswerLimit
		if ends {
			late /= 5 // the context ends before the answer comes
		}
		cells = append(cells, locktest.Subtest{
			Name: fmt.Sprintf("%s, shared %t, context can end %t, ends %t", name, shared, canEnd, ends),
			Run: func(t testing.TB) {
				m := newMixUp(t, s, client, shared)
				if m.ctx = t.Context(); !canEnd {
					m.ctx = locktest.Unbounded(t)
				}
				m.requireOwnAnswers(m.leave(late, ends))
			},
		})
	}
	for name, client := range poolsOfOne {
		for _, shared := range []bool{false, true} {
			add(name, client, shared, false, false)
			add(name, client, shared, true, false)
			add(name, client, shared, true, true)
		}
	}
	locktest.RunTogether(t, cells)
}

// mixUp is a client with one connection, behind a proxy, and two locks of which
// another client holds one.
type mixUp struct {
	testing.TB
	proxy       *faults.Proxy
	client      *relock.Client
	ctx         context.Context // the caller's
	free, taken *relock.RedisLock
	values      *relock.Script
}

func newMixUp(
	t testing.TB, s *redistest.Server, client func(testing.TB, *redistest.Server) *relock.Client, shared bool,
) *mixUp {
	m := &mixUp{TB: t, proxy: faults.Start(t, s.Network, s.Address), values: relock.NewScript("return ARGV[1]")}
	m.client = client(t, &redistest.Server{Network: m.proxy.Network, Address: m.proxy.Address})
	if shared {
		locktest.Sharing(t, m.client)
	}
	m.free, m.taken = relock.NewRedisLock("free", m.client), relock.NewRedisLock("taken", m.client)
	other := locktest.NewTestClient(t, s, relock.WithKeyPrefix(locktest.Prefix(m.client)))
	require.NoError(t, relock.NewRedisLock("taken", other).Lock(t.Context()))
	testkit.Eventually(t, testkit.Patience, func() bool {
		_, err := m.client.Eval(t.Context(), m.values, nil, "first")
		return err == nil
	}, "the connection is there, and the script")
	return m
}

// leave asks for the free lock and leaves before the server's OK arrives, as it
// does when the channel is closed.
func (m *mixUp) leave(late time.Duration, ends bool) (came <-chan struct{}) {
	ctx, cancel := context.WithCancel(m.ctx)
	defer cancel()
	if m.ctx.Done() == nil {
		ctx = m.ctx
	}
	came = m.proxy.On(faults.Command("SET"), 1, faults.Delay(late))
	result := testkit.Async(m, func() error { return m.free.TryLock(ctx) })
	require.True(m, m.proxy.Await(faults.Command("SET"), 1, locktest.FaultPatience))
	if ends {
		cancel()
	}
	err := testkit.ResultWithin(m, result, locktest.FaultPatience)
	require.Error(m, err)
	require.NotErrorIs(m, err, relock.ErrLockAcquiredByOthers)
	return came
}

// requireOwnAnswers makes the next calls, while the late answer is on its way
// and after it, until two rounds of calls have had all their answers.
func (m *mixUp) requireOwnAnswers(came <-chan struct{}) {
	end := time.Now().Add(testkit.Patience)
	for i, after := 0, 0; after < 2; i++ {
		require.True(m, time.Now().Before(end), "calls have no answers in time")
		has := false
		select {
		case <-came:
			has = true
		default:
		}
		if m.round(i) && has {
			after++
		}
		time.Sleep(locktest.AnswerLimit / 5) // the late answer comes in one of them
	}
	require.ErrorIs(m, m.free.Unlock(m.Context()), relock.ErrNotHeld)
	watch := testkit.NewStopwatch(m)
	testkit.Eventually(m, testkit.Patience, func() bool { return m.free.TryLock(m.Context()) == nil },
		"what no caller got is free again")
	watch.Within(locktest.CleanWithin)
	require.NoError(m, m.free.Unlock(m.Context()))
}

// round makes some calls, and reports whether all had an answer in time, which
// a busy machine may not give.
func (m *mixUp) round(i int) (answered bool) {
	err := m.taken.TryLock(m.Context())
	answered = !driver.IsTimeout(err)
	if answered {
		require.ErrorIs(m, err, relock.ErrLockAcquiredByOthers)
	}
	for k := range 10 {
		want := fmt.Sprintf("answer %d of %d", k, i)
		got, err := m.client.Eval(m.Context(), m.values, nil, want)
		if driver.IsTimeout(err) {
			answered = false
			continue
		}
		require.NoError(m, err)
		require.Equal(m, want, got)
	}
	return answered
}

// An answer that comes twice is never taken for the next command's: neither for
// a grant of a lock that another client has, nor for anything else.
func TestDoubledAnswerIsNoGrant(t *testing.T) {
	t.Parallel()
	testkit.Each(t, map[string]func(testing.TB) context.Context{
		"bounded": testing.TB.Context, "unbounded": locktest.Unbounded,
	}, func(t *testing.T, _ string, contextOf func(testing.TB) context.Context) {
		s, ctx := locktest.WithScripts(t, redistest.Start(t)), contextOf(t)
		c, proxy := locktest.Behind(t, s)
		require.NoError(t, relock.NewRedisLock("others", locktest.Sibling(t, s, c)).Lock(ctx))
		requireTheirs := func() {
			require.ErrorIs(t, relock.NewRedisLock("others", c).TryLock(ctx), relock.ErrLockAcquiredByOthers)
		}
		for _, match := range []faults.Match{
			faults.Command("SET"), faults.Script(script.Release.SHA), faults.Command("SET"),
		} {
			done := proxy.On(match, 1, faults.DoubleAnswer)
			l := relock.NewRedisLock("free", c)
			require.NoError(t, l.Lock(ctx))
			requireTheirs()
			require.NoError(t, l.Unlock(ctx))
			requireTheirs()
			<-done
		}
		const refuses = "return redis.error_reply('ERR no')"
		sha, err := redis.String(s.Do(t, "SCRIPT", "LOAD", refuses), nil)
		require.NoError(t, err)
		done := proxy.On(faults.Script(sha), 1, faults.DoubleAnswer)
		_, err = c.Eval(ctx, relock.NewScript(refuses), nil)
		require.ErrorContains(t, err, "ERR no")
		<-done
		requireTheirs()
	})
}

// What comes while a connection is idle is seen before it is used again, by
// callers and by the watchdog. Its end is seen, too.
func TestIdleConnectionThatSpeaks(t *testing.T) {
	t.Parallel()
	s := locktest.WithScripts(t, redistest.Start(t))
	c, proxy := locktest.Behind(t, s)
	other := locktest.Sibling(t, s, c)
	require.NoError(t, relock.NewRedisLock("others", other).Lock(t.Context()))
	h := locktest.Acquire(t, c, "held")
	for range 3 {
		locktest.RequireRenewed(t, h)
		require.NoError(t, relock.NewRedisLock("mine", c).Do(t.Context(), locktest.Nothing))
		proxy.Say("+OK\r\n")
		require.ErrorIs(t, relock.NewRedisLock("others", c).TryLock(t.Context()), relock.ErrLockAcquiredByOthers)
	}
	s.Do(t, "DEL", locktest.KeyOf(c, "held"))
	proxy.Say(strings.Repeat(":1\r\n", 100)) // each of which would be a renewal
	locktest.RenewNow(h)
	require.ErrorIs(t, testkit.EndedWithin(t, h.Context(), lockspec.DefaultLease/4), relock.ErrLockLost)
	require.ErrorIs(t, h.Unlock(t.Context()), relock.ErrLockLost)
}
