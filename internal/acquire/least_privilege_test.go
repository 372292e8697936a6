package acquire_test

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

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/locktest"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/testkit"
)

// A wrong password and a missing permission are permanent: a blocking Lock
// returns immediately.
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
			c, err := relock.NewClient(s.Network, s.Address, tt.password, relock.WithUsername(tt.user), relock.WithBlock())
			require.NoError(t, err)
			defer func() { require.NoError(t, c.Close()) }()
			for name, lock := range map[string]func(context.Context) error{
				"taken":     relock.NewRedisLock("taken", c).Lock,
				"reentrant": relock.NewReentrantLock("taken", c).Lock,
				"Do":        func(ctx context.Context) error { return relock.NewReentrantLock("other", c).Do(ctx, locktest.Nothing) },
				"Acquire":   func(ctx context.Context) error { return second(relock.NewRedisLock("taken", c).Acquire(ctx)) },
			} {
				err := locktest.RequireAtOnce(t, lock)
				require.ErrorIs(t, err, relock.ErrDenied, name)
				require.ErrorContains(t, err, tt.want, name)
			}
		})
	}
}

// The password changes while a lock is held, and the connections are cut.
func TestPasswordRotation(t *testing.T) {
	t.Parallel()
	const lease = 2400 * time.Millisecond
	start := func(t *testing.T) (*redistest.Server, []relock.Hold) {
		s := redistest.Start(t)
		s.Do(t, "ACL", "SETUSER", "app", "on", ">old", "~*", "+@all")
		c, err := relock.NewClient(s.Network, s.Address, "old", relock.WithUsername("app"), relock.WithWatchdog(lease))
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, c.Close()) })
		plain, err := relock.NewRedisLock("p", c).Acquire(t.Context())
		require.NoError(t, err)
		reentrant, err := relock.NewReentrantLock("r", c).Acquire(t.Context())
		require.NoError(t, err)
		s.Do(t, "ACL", "SETUSER", "app", "resetpass", ">new")
		s.Do(t, "CLIENT", "KILL", "USER", "app")
		err = relock.NewRedisLock("other", c, relock.WithBlock()).Lock(t.Context())
		require.ErrorIs(t, err, relock.ErrDenied)
		require.ErrorContains(t, err, "WRONGPASS")
		return s, []relock.Hold{plain, reentrant}
	}
	t.Run("for good", func(t *testing.T) {
		t.Parallel()
		_, holds := start(t)
		due := []*locktest.Alarm{locktest.SetAlarm(t, holds[0].ValidUntil()), locktest.SetAlarm(t, holds[1].ValidUntil())}
		for i, h := range holds {
			require.ErrorIs(t, testkit.EndedWithin(t, h.Context(), 2*lease), relock.ErrLockLost)
			ended := time.Now()
			require.False(t, ended.Before(due[i].At), "lost before its validity ended")
			require.Less(t, ended.Sub(due[i].Ring()), 500*time.Millisecond)
			err := h.Unlock(t.Context())
			require.ErrorIs(t, err, relock.ErrLockLost)
			require.ErrorIs(t, err, relock.ErrNotHeld)
		}
	})
	t.Run("for a moment", func(t *testing.T) {
		t.Parallel()
		s, holds := start(t)
		time.Sleep(lease / 4) // of the outage
		s.Do(t, "ACL", "SETUSER", "app", ">old")
		for _, h := range holds {
			locktest.AwaitRenewal(t, h, 2*lease)
			locktest.AwaitRenewal(t, h, 2*lease)
			require.NoError(t, h.Err())
			require.NoError(t, h.Unlock(t.Context()))
		}
	})
}

// privileged runs all that needs a permission, and returns the error of each
// step. It runs check after each.
func privileged(t *testing.T, c *relock.Client, check func()) map[string]error {
	results := map[string]error{}
	step := func(name string, err error) bool {
		results[name] = err
		check()
		return err == nil
	}
	use := func(name string, acquire func(context.Context) (relock.Hold, error), more func()) {
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
	plain := relock.NewRedisLock("plain", c)
	use("plain", plain.Acquire, func() {
		if err := plain.TryLock(t.Context()); !errors.Is(err, relock.ErrLockAcquiredByOthers) {
			step("plain: taken", err)
		}
	})
	reentrant := relock.NewReentrantLock("reentrant", c)
	use("reentrant", reentrant.Acquire, func() { use("nested", reentrant.Acquire, nil) })
	use("plain, kept", relock.NewRedisLock("kept plain", c, relock.WithMinHold(time.Second)).Acquire, nil)
	use("reentrant, kept", relock.NewReentrantLock("kept reentrant", c, relock.WithMinHold(time.Second)).Acquire, nil)
	return results
}

// As a user with the least privileges everything works. With one less, there is
// an error that says so, and no key without an expiry.
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
		c, err := relock.NewClient(s.Network, s.Address, "pw", relock.WithUsername("app"), relock.WithCommandTimeout(time.Second))
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
	for step, err := range run(t, locktest.LeastPrivilege) {
		require.NoError(t, err, step)
	}
	for i, command := range locktest.LeastPrivilege {
		t.Run("without "+command, func(t *testing.T) {
			denied := 0
			for step, err := range run(t, slices.Delete(slices.Clone(locktest.LeastPrivilege), i, i+1)) {
				if err == nil {
					continue
				}
				t.Log(step, err)
				denied++
				require.ErrorIs(t, err, relock.ErrDenied, step)
				require.False(t, relock.IsRetryableErr(err), step)
			}
			require.Positive(t, denied, "it is not needed")
		})
	}
}

// waitPrivilege is what a user needs on top to wait, or for fair locks, as the
// README says.
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

// waitWith hands locks off among waiters that may only use these commands on
// top. It returns what went wrong, at the first kind of lock with which
// something did.
func waitWith(t *testing.T, commands []string) (complaints []string) {
	s := locktest.WithScripts(t, redistest.Start(t))
	rules := []any{"SETUSER", "app", "reset", "on", ">pw", "~relock:*", "&relock:*", "-@all"}
	for _, command := range append(slices.Clone(locktest.LeastPrivilege), commands...) {
		rules = append(rules, "+"+command)
	}
	s.Do(t, "ACL", rules...)
	var logs locktest.LogBuffer
	var clients [3]*relock.Client
	for i := range clients {
		c, err := relock.NewClient(s.Network, s.Address, "pw", relock.WithUsername("app"), logs.Option())
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, c.Close()) })
		clients[i] = c
	}
	for _, m := range locktest.QueueModes {
		complaints = append(complaints, handOffWith(t, s, m, clients)...)
		if text := logs.String(); text != "" {
			complaints = append(complaints, text)
		}
		if len(complaints) > 0 {
			return complaints
		}
	}
	for end := time.Now().Add(time.Second); s.Do(t, "DBSIZE") != int64(0); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			return []string{fmt.Sprint("left: ", s.Do(t, "KEYS", "*"))}
		}
	}
	return nil
}

// handOffWith has one client hand a lock off to another, while the third gives
// up, and returns what went wrong.
func handOffWith(t *testing.T, s *redistest.Server, m locktest.QueueMode, clients [3]*relock.Client) (complaints []string) {
	holder, waiter, other := clients[0], clients[1], clients[2]
	complain := func(what string, err error) {
		if err != nil {
			complaints = append(complaints, what+": "+err.Error())
		}
	}
	key := strings.ReplaceAll(m.Title(), " ", "")
	opts := []relock.LockOption{relock.WithBlockTimeout(2 * time.Second)}
	if m.Fair {
		opts = append(opts, relock.WithFair())
	}
	h, err := locktest.Kinds[m.Kind](key, holder, opts...).TryAcquire(t.Context())
	if err != nil {
		return []string{"try: " + err.Error()}
	}
	granted := make(chan error, 1)
	waiting := locktest.Kinds[m.Kind](key, waiter, opts...)
	ended := testkit.Async(t, func() error {
		next, err := waiting.Acquire(t.Context())
		granted <- err
		if err != nil {
			return nil
		}
		return next.Unlock(t.Context())
	})
	queue := locktest.KeyOf(waiter, key) + ":q"
	testkit.Eventually(t, 5*time.Second, func() bool { return s.Do(t, "ZCARD", queue) == int64(1) || len(granted) > 0 }, "queued, or refused")
	short := append(slices.Clone(opts), relock.WithBlockTimeout(500*time.Millisecond), relock.WithWatchdog(600*time.Millisecond)) // a poll every 200ms
	if err := locktest.Kinds[m.Kind](key, other, short...).Lock(t.Context()); !errors.Is(err, relock.ErrLockAcquiredByOthers) {
		complain("gives up", err)
	}
	if first, err := redis.Strings(s.Do(t, "ZRANGE", queue, 0, 0), nil); err == nil && len(first) == 1 {
		before := locktest.Calls(t, s, "evalsha")
		heard := s.Do(t, "PUBLISH", "relock:"+locktest.Engine(waiter).Identity.ID, first[0]+" "+locktest.KeyOf(waiter, key))
		if heard == int64(1) {
			testkit.Eventually(t, 5*time.Second, func() bool { return locktest.Calls(t, s, "evalsha") > before }, "it claims, in vain")
		}
	}
	complain("unlock", h.Unlock(t.Context()))
	start := time.Now()
	complain("wait", testkit.ResultWithin(t, granted, 5*time.Second))
	if d := time.Since(start); d > time.Second {
		complain("wait", fmt.Errorf("took %v", d))
	}
	complain("unlock", testkit.ResultWithin(t, ended, 5*time.Second))
	return complaints
}
