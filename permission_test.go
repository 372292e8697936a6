package relock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/testkit"
)

// requireAtOnce runs a blocking Lock that must not wait.
func requireAtOnce(t testing.TB, lock func(context.Context) error) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	start := time.Now()
	err := lock(ctx)
	require.Error(t, err)
	require.NoError(t, ctx.Err(), "it waited")
	require.Less(t, time.Since(start), 2*time.Second)
	require.False(t, IsRetryableErr(err), err)
	return err
}

// A wrong password and a missing permission do not pass: a blocking Lock returns at once.
func TestBlockingLockDoesNotWaitForPermission(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, "--requirepass", "sesame")
	admin := s.Dial(t, redis.DialPassword("sesame"))
	defer admin.Close() //nolint:errcheck // nothing is pending
	for _, user := range [][]any{
		{"SETUSER", "nothing", "on", ">pw", "~*"},
		{"SETUSER", "noscript", "on", ">pw", "~*", "+set"},
		{"SETUSER", "noread", "on", ">pw", "~*", "+@all", "-get", "-set"},
		{"SETUSER", "nokeys", "on", ">pw", "~other:*", "+@all"},
		{"SETUSER", "off", "off", ">pw", "~*", "+@all"},
	} {
		_, err := admin.Do("ACL", user...)
		require.NoError(t, err)
	}
	_, err := admin.Do("SET", "relock:{taken}", "relock/1|p|somebody's", "PX", 3600_000)
	require.NoError(t, err)
	for _, tt := range []struct{ name, user, password, want string }{
		{"no password", "", "", ""},
		{"wrong password", "", "hunter2", "WRONGPASS"},
		{"user is off", "off", "pw", "WRONGPASS"},
		{"no command", "nothing", "pw", "NOPERM"},
		{"no script", "noscript", "pw", "NOPERM"},
		{"no command, in the script", "noread", "pw", ""},
		{"no keys", "nokeys", "pw", "NOPERM"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c, err := NewClient(s.Network, s.Address, tt.password, WithUsername(tt.user), WithBlock())
			require.NoError(t, err)
			defer func() { require.NoError(t, c.Close()) }()
			for name, lock := range map[string]func(context.Context) error{
				"taken":     NewRedisLock("taken", c).Lock,
				"reentrant": NewReentrantLock("taken", c).Lock,
				"Do":        func(ctx context.Context) error { return NewReentrantLock("other", c).Do(ctx, noWork) },
				"Acquire":   func(ctx context.Context) error { return second(NewRedisLock("taken", c).Acquire(ctx)) },
			} {
				err := requireAtOnce(t, lock)
				require.ErrorIs(t, err, ErrDenied, name)
				require.ErrorContains(t, err, tt.want, name)
			}
		})
	}
}

// The password changes while a lock is held, and the connections are cut.
func TestPasswordRotation(t *testing.T) {
	t.Parallel()
	const lease = 2400 * time.Millisecond
	start := func(t *testing.T) (*redistest.Server, []Hold) {
		s := redistest.Start(t)
		s.Do(t, "ACL", "SETUSER", "app", "on", ">old", "~*", "+@all")
		c, err := NewClient(s.Network, s.Address, "old", WithUsername("app"), WithWatchdog(lease))
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, c.Close()) })
		plain, err := NewRedisLock("p", c).Acquire(t.Context())
		require.NoError(t, err)
		reentrant, err := NewReentrantLock("r", c).Acquire(t.Context())
		require.NoError(t, err)
		s.Do(t, "ACL", "SETUSER", "app", "resetpass", ">new")
		s.Do(t, "CLIENT", "KILL", "USER", "app")
		err = NewRedisLock("other", c, WithBlock()).Lock(t.Context())
		require.ErrorIs(t, err, ErrDenied)
		require.ErrorContains(t, err, "WRONGPASS")
		return s, []Hold{plain, reentrant}
	}
	t.Run("for good", func(t *testing.T) {
		t.Parallel()
		_, holds := start(t)
		due := []*alarm{setAlarm(t, holds[0].ValidUntil()), setAlarm(t, holds[1].ValidUntil())}
		for i, h := range holds {
			require.ErrorIs(t, testkit.EndedWithin(t, h.Context(), 2*lease), ErrLockLost)
			ended := time.Now()
			require.False(t, ended.Before(due[i].at), "lost before belief ended")
			require.Less(t, ended.Sub(due[i].ring()), 500*time.Millisecond)
			err := h.Unlock(t.Context())
			require.ErrorIs(t, err, ErrLockLost)
			require.ErrorIs(t, err, ErrNotHeld)
		}
	})
	t.Run("for a moment", func(t *testing.T) {
		t.Parallel()
		s, holds := start(t)
		time.Sleep(lease / 4) // of the outage
		s.Do(t, "ACL", "SETUSER", "app", ">old")
		select {
		case <-holds[0].Context().Done():
		case <-holds[1].Context().Done():
		case <-time.After(2 * lease):
		}
		for _, h := range holds {
			require.NoError(t, h.Err())
			require.NoError(t, h.Unlock(t.Context()))
		}
	})
}

// leastPrivilege are the commands that locks use, in scripts too; PING is for [Client.Ping] alone. AUTH is always allowed, SELECT is needed
// with WithDatabase. With them an operator makes a user:
//
//	ACL SETUSER app on >password resetkeys ~relock:* -@all +set +get +del +type +pttl +pexpire +hmget +hset +hdel +eval +evalsha +ping
var leastPrivilege = []string{"set", "get", "del", "type", "pttl", "pexpire", "hmget", "hset", "hdel", "eval", "evalsha", "ping"}

// privileged runs everything that needs a permission, and returns what each step said. check runs after each.
func privileged(t *testing.T, c *Client, check func()) map[string]error {
	said := map[string]error{}
	step := func(name string, err error) bool {
		said[name] = err
		check()
		return err == nil
	}
	use := func(name string, acquire func(context.Context) (Hold, error), more func()) {
		h, err := acquire(t.Context())
		if step(name+": acquire", err) {
			if more != nil {
				more()
			}
			step(name+": extend", h.Extend(t.Context(), 40*time.Second))
			step(name+": unlock", h.Unlock(t.Context()))
		}
	}
	step("ping", c.Ping(t.Context()))
	plain := NewRedisLock("plain", c)
	use("plain", plain.Acquire, func() {
		if err := plain.TryLock(t.Context()); !errors.Is(err, ErrLockAcquiredByOthers) {
			step("plain: taken", err)
		}
	})
	reentrant := NewReentrantLock("reentrant", c)
	use("reentrant", reentrant.Acquire, func() { use("nested", reentrant.Acquire, nil) })
	use("plain, kept", NewRedisLock("kept plain", c, WithMinHold(time.Second)).Acquire, nil)
	use("reentrant, kept", NewReentrantLock("kept reentrant", c, WithMinHold(time.Second)).Acquire, nil)
	return said
}

// As a user with the least privileges everything works; with one less, there is an error that says so, and no key without an expiry.
func TestLeastPrivilege(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	run := func(t *testing.T, commands []string) map[string]error {
		s.Do(t, "FLUSHALL")
		s.Do(t, "SCRIPT", "FLUSH")
		rules := []any{"SETUSER", "app", "reset", "on", ">pw", "~relock:*", "-@all"}
		for _, command := range commands {
			rules = append(rules, "+"+command)
		}
		s.Do(t, "ACL", rules...)
		c, err := NewClient(s.Network, s.Address, "pw", WithUsername("app"), WithCommandTimeout(time.Second))
		require.NoError(t, err)
		defer func() { require.NoError(t, c.Close()) }()
		return privileged(t, c, func() {
			keys, err := redis.Strings(s.Do(t, "KEYS", "*"), nil)
			require.NoError(t, err)
			for _, key := range keys {
				require.NotEqual(t, int64(-1), s.Do(t, "PTTL", key), "%s would stay for ever", key)
			}
		})
	}
	for step, err := range run(t, leastPrivilege) {
		require.NoError(t, err, step)
	}
	for i, command := range leastPrivilege {
		t.Run("without "+command, func(t *testing.T) {
			denied := 0
			for step, err := range run(t, slices.Delete(slices.Clone(leastPrivilege), i, i+1)) {
				if err == nil {
					continue
				}
				t.Log(step, err)
				denied++
				require.ErrorIs(t, err, ErrDenied, step)
				require.False(t, IsRetryableErr(err), step)
			}
			require.Positive(t, denied, "it is not needed")
		})
	}
}

// waitPrivilege is what a user needs on top who waits, or has fair locks, as the README says.
var waitPrivilege = []string{
	"time", "exists", "hget", "hrandfield", "zadd", "zcard", "zrem", "zrange", "zscore", "zmscore", "zremrangebyrank", "publish", "subscribe",
}

func TestLeastPrivilegeToWait(t *testing.T) {
	t.Parallel()
	t.Run("all", func(t *testing.T) {
		t.Parallel()
		require.Empty(t, waitWith(t, waitPrivilege))
	})
	for i, command := range waitPrivilege {
		t.Run("without "+command, func(t *testing.T) {
			t.Parallel()
			complaints := waitWith(t, slices.Delete(slices.Clone(waitPrivilege), i, i+1))
			require.NotEmpty(t, complaints, "it is not needed")
			t.Log(complaints[0])
		})
	}
}

// waitWith hands locks over among waiters that may only use these commands on top, and returns what went wrong.
func waitWith(t *testing.T, commands []string) (complaints []string) {
	s := taught(t, redistest.Start(t))
	rules := []any{"SETUSER", "app", "reset", "on", ">pw", "~relock:*", "&relock:*", "-@all"}
	for _, command := range append(slices.Clone(leastPrivilege), commands...) {
		rules = append(rules, "+"+command)
	}
	s.Do(t, "ACL", rules...)
	var logs logBuffer
	client := func() *Client {
		c, err := NewClient(s.Network, s.Address, "pw", WithUsername("app"), logs.option())
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, c.Close()) })
		return c
	}
	holder, waiter, other := client(), client(), client()
	complain := func(what string, err error) {
		if err != nil {
			complaints = append(complaints, what+": "+err.Error())
		}
	}
	for _, m := range queueModes() {
		key := strings.ReplaceAll(m.name(), " ", "")
		opts := []LockOption{WithBlockTimeout(2 * time.Second)}
		if m.fair {
			opts = append(opts, WithFair())
		}
		h, err := kinds[m.kind](key, holder, opts...).TryAcquire(t.Context())
		if err != nil {
			complain("try", err)
			continue
		}
		granted := make(chan error, 1)
		waiting := kinds[m.kind](key, waiter, opts...)
		ended := testkit.Async(t, func() error {
			next, err := waiting.Acquire(t.Context())
			granted <- err
			if err != nil {
				return nil
			}
			return next.Unlock(t.Context())
		})
		queued := func() bool { return s.Do(t, "ZCARD", keyOf(waiter, key)+":q") == int64(1) || len(granted) > 0 }
		testkit.Eventually(t, 5*time.Second, queued, "in the queue, or refused")
		short := append(slices.Clone(opts), WithBlockTimeout(500*time.Millisecond), WithWatchdog(600*time.Millisecond)) // a poll every 200ms
		if err := kinds[m.kind](key, other, short...).Lock(t.Context()); !errors.Is(err, ErrLockAcquiredByOthers) {
			complain("gives up", err)
		}
		if first, err := redis.Strings(s.Do(t, "ZRANGE", keyOf(waiter, key)+":q", 0, 0), nil); err == nil && len(first) == 1 {
			before := calls(t, s, "evalsha")
			heard := s.Do(t, "PUBLISH", "relock:"+waiter.engine.Identity.ID, first[0]+" "+keyOf(waiter, key))
			if heard == int64(1) {
				testkit.Eventually(t, 5*time.Second, func() bool { return calls(t, s, "evalsha") > before }, "it claims, in vain")
			}
		}
		complain("unlock", h.Unlock(t.Context()))
		start := time.Now()
		complain("wait", testkit.ResultWithin(t, granted, 5*time.Second))
		if d := time.Since(start); d > time.Second {
			complain("wait", fmt.Errorf("took %v", d))
		}
		complain("unlock", testkit.ResultWithin(t, ended, 5*time.Second))
	}
	if text := logs.String(); text != "" {
		complaints = append(complaints, text)
	}
	for end := time.Now().Add(time.Second); ; time.Sleep(10 * time.Millisecond) {
		keys, err := redis.Strings(s.Do(t, "KEYS", "*"), nil)
		require.NoError(t, err)
		if len(keys) == 0 {
			return complaints
		}
		if time.Now().After(end) {
			return append(complaints, fmt.Sprint("left: ", keys))
		}
	}
}
