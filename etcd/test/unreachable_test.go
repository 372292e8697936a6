package test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/connectivity"

	"github.com/relock-go/relock"
	etcdlock "github.com/relock-go/relock/etcd"
	"github.com/relock-go/relock/etcd/test/internal/member"
	"github.com/relock-go/relock/internal/test/testkit"
)

// If no server can be reached, the error of a call has the reason of the
// connection, also for a call that waits in memory.
func TestNoServerSaysWhy(t *testing.T) {
	t.Parallel()
	inModes(t, func(t *testing.T, opts ...etcdlock.Option) {
		address := freeAddress(t)
		l := newLocker(t, (&cluster{endpoints: []string{address}}).client(t), append(opts, etcdlock.WithTTL(brief))...)
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		first, second := waiter(ctx, l, "key"), waiter(ctx, l, "key")
		for _, done := range []<-chan result{first, second} {
			err := await(t, done).err
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.ErrorContains(t, err, "no server can be reached")
			require.ErrorContains(t, err, "dial tcp "+address)
			require.NotErrorIs(t, err, relock.ErrLockAcquiredByOthers)
		}
		_, err := l.TryLock(limited(t), "key")
		require.ErrorContains(t, err, "dial tcp "+address)
		require.True(t, relock.IsRetryableErr(err), "%v", err)
	})
}

// The errors of calls for what is held have the reason, too.
func TestServerThatIsGoneSaysWhy(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	client := c.client(t)
	l := newLocker(t, client, etcdlock.WithTTL(time.Minute))
	hold, other := lock(t, l, "key"), lock(t, l, "other")
	c.crash(0)
	soon(t, "the client notices",
		func() bool { return client.ActiveConnection().GetState() == connectivity.TransientFailure })
	// A connection that the server was about to accept is reset.
	soon(t, "nobody listens", func() bool {
		_, err := l.TryLock(limited(t), "third")
		return strings.Contains(err.Error(), "dial tcp "+c.endpoints[0])
	})
	for name, call := range map[string]func() error{
		"Extend":     func() error { return hold.Extend(limited(t), time.Minute) },
		"longExtend": func() error { return hold.Extend(limited(t), time.Hour) },
		"Unlock":     func() error { return other.Unlock(context.Background()) },
	} {
		err := call()
		require.ErrorContains(t, err, "dial tcp "+c.endpoints[0], name)
		require.Equal(t, name != "Unlock", relock.IsRetryableErr(err), "%v", err)
	}
	err := l.Close()
	require.ErrorIs(t, err, relock.ErrUnconfirmed)
	require.ErrorContains(t, err, "dial tcp "+c.endpoints[0])
}

const (
	warns = "no usable server for waiting calls"
	again = "waiting calls have a usable server again"
	gone  = "no call waits for the server any more"
)

// Calls that wait without a server are logged after a second, in one line for
// all, and once more when a server is there.
func TestWaitWithoutAServerIsLogged(t *testing.T) {
	t.Parallel()
	inModes(t, func(t *testing.T, opts ...etcdlock.Option) {
		t.Parallel()
		config := configs(t, 1)[0]
		c := &cluster{members: make([]*member.Member, 1), endpoints: []string{config.Client}, stopped: map[int]bool{}}
		var log logged
		l := newLocker(t, c.client(t), append(opts, log.option())...)
		clock := testkit.NewStopwatch(t)
		began := time.Now()
		var calls []<-chan error
		for _, key := range []string{"a", "b", "b"} {
			calls = append(calls, testkit.Async(t, func() error {
				return relock.Do(limited(t), l, key, func(context.Context) error { return nil })
			}))
		}
		try := testkit.Async(t, func() error { // it is not one that waits
			_, err := l.TryLock(limited(t), "c")
			return err
		})
		soon(t, "logged", func() bool { return log.contains(warns) })
		require.Greater(t, time.Since(began), time.Second)
		clock.Within(2500*time.Millisecond, "logged while the first request, which has 3 s, is under way")
		require.Error(t, testkit.ResultWithin(t, try, patience))
		line := []string{"level=WARN", warns + `" since=`, " waiting=3 ", "no server can be reached", config.Client}
		require.Equal(t, 1, log.lines(line...), log.String())
		c.start(t, 0, config)
		t.Cleanup(func() { c.crash(0) })
		for _, call := range calls {
			require.NoError(t, testkit.ResultWithin(t, call, patience))
		}
		soon(t, "logged", func() bool { return log.contains(again) })
		require.Equal(t, 1, log.lines("level=INFO", again+`" since=`), log.String())
		require.Equal(t, 2, log.lines("server"), log.String())
	})
}

// The end of the last call that waits in vain is logged, too. A call that gives
// up within a second is not.
func TestWaitWithoutAServerEnds(t *testing.T) {
	t.Parallel()
	inModes(t, func(t *testing.T, opts ...etcdlock.Option) {
		t.Parallel()
		var log logged
		l := newLocker(t, (&cluster{endpoints: []string{freeAddress(t)}}).client(t), append(opts, log.option())...)
		short, cancel := context.WithTimeout(context.Background(), 500*time.Millisecond)
		defer cancel()
		require.Error(t, await(t, waiter(short, l, "key")).err)
		require.Empty(t, log.String())
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		call := waiter(ctx, l, "key")
		soon(t, "logged", func() bool { return log.contains(warns) })
		cancel()
		require.ErrorIs(t, await(t, call).err, context.Canceled)
		soon(t, "logged", func() bool { return log.lines("level=INFO", gone) == 1 })
	})
}

// A call that waits for a lock of others learns of a server that is away when
// it asks again, after two TTLs at most.
func TestServerThatGoesDuringAWaitIsLogged(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	var log logged
	f := newFaults()
	l := newLocker(t, c.faulty(t, f), etcdlock.WithTTL(time.Second), log.option())
	lock(t, newLocker(t, c.client(t)), "key")
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	call := waiter(ctx, l, "key")
	soon(t, "it waits", func() bool { return f.count("Txn") > 1 })
	c.crash(0)
	soon(t, "logged", func() bool { return log.lines("level=WARN", warns, " waiting=1 ", "connect") == 1 })
	cancel()
	require.Error(t, await(t, call).err)
}

// A member that is silent, and does not close its connections, costs each call
// that meets it the limit of a request. A client that pings it leaves it.
func TestSilentMemberIsLeft(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, calm)
	var proxies []*proxy
	var through []string
	for _, address := range c.endpoints {
		p := newProxy(t, address)
		proxies, through = append(proxies, p), append(through, p.address)
	}
	l := newLocker(t, c.clientWith(t, clientv3.Config{
		Endpoints: through, DialKeepAliveTime: 10 * time.Second, DialKeepAliveTimeout: 2 * time.Second,
	}))
	hold := lock(t, l, "held")
	proxies[(c.leader(t)+1)%3].silence()
	inARow := 0
	soon(t, "calls no longer meet the silent member", func() bool {
		began := time.Now()
		unlock(t, lock(t, l, "key"))
		if inARow++; time.Since(began) > lease/10 {
			inARow = 0
		}
		return inARow == 6 // two for each member
	})
	require.NoError(t, hold.Err())
	unlock(t, hold)
}
