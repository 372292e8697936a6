package acquire_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

// The tests try what docs/operations.md promises.
func TestPrivilegesAreThoseOfTheDocs(t *testing.T) {
	t.Parallel()
	p := locktest.ReadPrivileges(t)
	require.Equal(t, append(strings.Fields("SETUSER app on >password resetkeys "+
		"~relock:* -@all"), locktest.Plus(locktest.LeastPrivilege)...), p.Least)
	require.Equal(t, append(strings.Fields("SETUSER app resetchannels &relock:*"), locktest.Plus(waitPrivilege)...),
		p.Wait)
	require.Equal(t, strings.Fields(locktest.RWCommands), p.Find(t, "NewRWLock").Commands)
	uses := privilegeUses()
	for _, one := range p.OnTop {
		require.Contains(t, uses, one.Of, "no test needs it")
		require.NotEmpty(t, append(one.Beside, one.Commands...), one.Of)
	}
	require.Len(t, p.OnTop, len(uses), "docs/operations.md does not name them all")
}

// As a user with the least privileges everything works. With one less, each
// step that fails names it, and no key is left without an expiry.
func TestLeastPrivilege(t *testing.T) {
	t.Parallel()
	b := newPrivilegeBench(t, privilegeUse{use: lockAndUnlock})
	require.NoError(t, b.try(nil))
	for _, command := range locktest.LeastPrivilege {
		b.requireDenied(command, []string{"-" + command})
	}
}

// waitPrivilege is what a user needs on top to wait, or for fair locks, as the
// docs/operations.md says.
var waitPrivilege = []string{
	"time", "hget", "hrandfield", "zadd", "zcard", "zrem", "zrange", "zscore", "zmscore", "zremrangebyrank", "publish",
	"subscribe",
}

func TestLeastPrivilegeToWait(t *testing.T) {
	t.Parallel()
	rules := locktest.ReadPrivileges(t).Wait[2:]
	t.Run("all", func(t *testing.T) {
		t.Parallel()
		require.NoError(t, newPrivilegeBench(t, privilegeUse{use: handOffInEachMode}).try(rules))
	})
	for _, command := range waitPrivilege {
		t.Run("without "+command, func(t *testing.T) {
			t.Parallel()
			err := newPrivilegeBench(t, privilegeUse{use: handOffInEachMode}).try(append(slices.Clone(rules), "-"+command))
			require.Error(t, err, "it is not needed")
			t.Log(err)
		})
	}
}

// What a feature needs on top is enough: nothing is denied. Without any one of
// it, an error names what is missing.
func TestPrivilegesOnTop(t *testing.T) {
	t.Parallel()
	p := locktest.ReadPrivileges(t)
	testkit.Each(t, privilegeUses(), func(t *testing.T, of string, use privilegeUse) {
		one := p.Find(t, of)
		b := newPrivilegeBench(t, use)
		all := slices.Concat(p.Besides(t, one), one.Commands)
		require.NoError(t, b.try(all))
		b.requireNothingDenied()
		if len(one.Commands) == 0 {
			b.requireDenied("what is beside it", nil)
		}
		for _, command := range one.Commands {
			b.requireDenied(command, append(slices.Clone(all), "-"+strings.TrimPrefix(command, "+")))
		}
	})
}

// The READMEs' line by categories allows every feature.
func TestCategoriesAllowEverything(t *testing.T) {
	t.Parallel()
	p := locktest.ReadCategories(t, "README.md")
	require.Equal(t, p, locktest.ReadCategories(t, "README.zh-CN.md"))
	uses := privilegeUses()
	uses["a lock"], uses["waiting"] = privilegeUse{use: lockAndUnlock}, privilegeUse{use: handOffInEachMode}
	testkit.Each(t, uses, func(t *testing.T, _ string, use privilegeUse) {
		b := newPrivilegeBench(t, use)
		b.allow = p.Allow
		require.NoError(t, b.try(nil))
		b.requireNothingDenied()
	})
}

// Two features together need what each needs, and no more.
func TestPrivilegesTogether(t *testing.T) {
	t.Parallel()
	fenced := relock.WithFencing()
	type features struct {
		of  []string
		use privilegeUse
	}
	testkit.Each(t, map[string]features{
		"a MultiLock that waits": {[]string{locktest.ToWait, "NewMultiLock"}, privilegeUse{use: waitForMany}},
		"a MultiLock, fenced":    {[]string{"WithFencing", "NewMultiLock"}, privilegeUse{use: takeAll(multiOf, fenced)}},
		"a RedLock that waits": {
			[]string{locktest.ToWait, "NewRedLock"}, privilegeUse{start: threeServers, use: waitForNodes},
		},
		"a RedLock, fenced": {
			[]string{"WithFencing", "NewRedLock"}, privilegeUse{start: threeServers, use: takeAll(redOf, fenced)},
		},
		"an RWLock, fenced": {[]string{"NewRWLock"}, privilegeUse{use: takeAll(rwOf, fenced)}},
	}, func(t *testing.T, _ string, tt features) {
		b := newPrivilegeBench(t, tt.use)
		require.NoError(t, b.try(locktest.ReadPrivileges(t).Besides(t, locktest.Privilege{Beside: tt.of})))
		b.requireNothingDenied()
	})
}

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
				"Do": func(ctx context.Context) error {
					return relock.NewReentrantLock("taken", c).Do(ctx, locktest.Nothing)
				},
				"Acquire": func(ctx context.Context) error { return second(relock.NewRedisLock("taken", c).Acquire(ctx)) },
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
	const lease = 6 * time.Second
	start := func(t *testing.T) (*redistest.Server, []relock.Hold) {
		s := redistest.Start(t)
		c := locktest.AsUser(t, s, "app", "test:", []any{"~*", "+@all"}, relock.WithWatchdog(lease))
		holds := []relock.Hold{
			locktest.Take(t, relock.NewRedisLock("p", c).Acquire), locktest.Take(t, relock.NewReentrantLock("r", c).Acquire),
		}
		s.Do(t, "ACL", "SETUSER", "app", "resetpass", ">new")
		s.Do(t, "CLIENT", "KILL", "USER", "app")
		err := relock.NewRedisLock("other", c, relock.WithBlock()).Lock(t.Context())
		require.ErrorIs(t, err, relock.ErrDenied)
		require.ErrorContains(t, err, "WRONGPASS")
		return s, holds
	}
	t.Run("for good", func(t *testing.T) {
		t.Parallel()
		_, holds := start(t)
		due, watch := []time.Time{holds[0].ValidUntil(), holds[1].ValidUntil()}, testkit.NewStopwatch(t)
		for i, h := range holds {
			require.ErrorIs(t, testkit.EndedWithin(t, h.Context(), testkit.Patience), relock.ErrLockLost)
			ended := time.Now()
			require.False(t, ended.Before(due[i]), "lost before its validity ended")
			watch.Check(ended.Sub(due[i]), 500*time.Millisecond)
			locktest.RequireIs(t, h.Unlock(t.Context()), relock.ErrLockLost, relock.ErrNotHeld)
		}
	})
	t.Run("for a moment", func(t *testing.T) {
		t.Parallel()
		s, holds := start(t)
		time.Sleep(lease / 4) // of the outage
		s.Do(t, "ACL", "SETUSER", "app", ">pw")
		for _, h := range holds {
			locktest.AwaitRenewal(t, h, testkit.Patience)
			locktest.AwaitRenewal(t, h, testkit.Patience)
			require.NoError(t, h.Err())
			require.NoError(t, h.Unlock(t.Context()))
		}
	})
}
