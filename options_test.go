package relock_test

import (
	"context"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"log/slog"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/locktest"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/testkit"
)

// What a pool of the user's own does itself cannot be set beside it.
func TestPoolOptionsBesideAPool(t *testing.T) {
	t.Parallel()
	pool := &redis.Pool{Dial: func() (redis.Conn, error) { return nil, context.Canceled }}
	for name, opt := range map[string]relock.ClientOption{
		"WithMaxIdle": relock.WithMaxIdle(10), "WithMaxActive": relock.WithMaxActive(0), "WithIdleTimeout": relock.WithIdleTimeout(time.Minute), "WithWaitMode": relock.WithWaitMode(),
		"WithUsername": relock.WithUsername(""), "WithDatabase": relock.WithDatabase(0), "WithTLS": relock.WithTLS(nil), "WithDialTimeout": relock.WithDialTimeout(time.Second),
	} {
		_, err := relock.NewClientPool(pool, opt)
		requireMistakes(t, err, "new client", name, "pool")
	}
	var log locktest.LogBuffer
	c, err := relock.NewClientPool(pool, relock.WithCommandTimeout(time.Second), relock.WithKeyPrefix("p:"), log.Option(), relock.WithBlock(), relock.WithExpiry(time.Second))
	require.NoError(t, err)
	require.NoError(t, c.Close())
}

// settingsOf are what a lock goes by.
func settingsOf(t testing.TB, c *relock.Client, opts ...relock.LockOption) lockspec.Spec {
	t.Helper()
	l := relock.NewReentrantLock("k", c, opts...)
	require.NoError(t, l.Validate())
	return locktest.Target(l).Settings
}

func TestDefaults(t *testing.T) {
	t.Parallel()
	c := locktest.Unconnected(t)
	require.Equal(t, 10, locktest.Config(c).MaxIdle)
	require.Equal(t, 0, locktest.Config(c).MaxActive)
	require.False(t, locktest.Config(c).Wait)
	require.Equal(t, 60*time.Second, locktest.Config(c).IdleTimeout)
	require.Equal(t, 5*time.Second, locktest.Config(c).DialTimeout)
	require.Equal(t, 3*time.Second, locktest.Config(c).CommandTimeout)
	require.Equal(t, "relock:", locktest.Prefix(c))
	require.Empty(t, locktest.Config(c).Username)
	require.Equal(t, 0, locktest.Config(c).Database)
	require.False(t, locktest.Config(c).UseTLS)
	require.False(t, locktest.Engine(c).Logger.Enabled(t.Context(), slog.LevelError))
	pool := locktest.PoolOf(c)
	require.Equal(t, 10, pool.MaxIdle)
	require.Equal(t, 0, pool.MaxActive)
	require.False(t, pool.Wait)
	require.Equal(t, 60*time.Second, pool.IdleTimeout)

	require.Equal(t, lockspec.Spec{Kind: lockspec.Reentrant, Poll: 50 * time.Millisecond, Lease: 30 * time.Second, Watched: true}, settingsOf(t, c))
	require.Equal(t, lockspec.Spec{Kind: lockspec.Reentrant, Poll: 50 * time.Millisecond, Lease: 200 * time.Millisecond, Watched: true}, settingsOf(t, c, relock.WithWatchdog(200*time.Millisecond)))
	require.Equal(t, lockspec.Spec{Kind: lockspec.Reentrant, Poll: 25 * time.Millisecond, Lease: 100 * time.Millisecond, Watched: true}, settingsOf(t, c, relock.WithWatchdog(100*time.Millisecond)))
	require.Equal(t, lockspec.Spec{Kind: lockspec.Reentrant, Poll: 2500 * time.Microsecond, Lease: 10 * time.Millisecond}, settingsOf(t, c, relock.WithExpiry(10*time.Millisecond)))
}

// Each default that a doc comment states is the one that is there.
func TestDocumentedDefaults(t *testing.T) {
	t.Parallel()
	client := locktest.Unconnected(t)
	c := locktest.Config(client)
	s := lockspec.Resolve(lockspec.Options{}, lockspec.Options{}, lockspec.Quorum, &lockspec.Problems{})
	want := map[string]string{
		"WithMaxIdle":        fmt.Sprint(c.MaxIdle),
		"WithMaxActive":      fmt.Sprint(c.MaxActive),
		"WithIdleTimeout":    seconds(c.IdleTimeout),
		"WithDialTimeout":    seconds(c.DialTimeout),
		"WithCommandTimeout": seconds(c.CommandTimeout),
		"WithDatabase":       fmt.Sprint(c.Database),
		"WithKeyPrefix":      fmt.Sprintf("%q", locktest.Prefix(client)),
		"WithPollInterval":   s.Poll.String(),
		"WithWatchdog":       seconds(s.Lease),
		"WithMaxLease":       seconds(s.MaxLease),
		"WithUsername":       "the", // server's default user
	}
	stated := regexp.MustCompile(`The\s+default\s+is\s+([^\s,]+?)[.,]?(\s|$)`)
	got := map[string]string{}
	limits := map[string][]string{
		"WithExpiry":       {"10ms to 10 years"},
		"WithWatchdog":     {"10ms to 10 years"},
		"WithMinHold":      {"10ms to 10 years"},
		"WithMaxLease":     {"10ms to 10 years"},
		"WithKeyPrefix":    {"at most 1024 bytes"},
		"WithOwner":        {"1 to 256 bytes"},
		"ContextWithOwner": {"1 to 256 bytes"},
		"WithLabel":        {"at most 256 bytes"},
		"WithPollInterval": {"1ms to a quarter of the lease"},
		"WithReplicas":     {"10ms to a quarter of the lease"},
		"WithQueueLimit":   {"1 to a million"},
		"NewRedisLock":     {"1 to 1024 bytes"},
		"NewReentrantLock": {"1 to 1024 bytes"},
		"NewMultiLock":     {"1 to 1024 bytes", "1 to 100 different ones"},
		"NewRedLock":       {"1 to 1024 bytes", "3 or more"},
	}
	for _, file := range []string{"options.go", "lock_options.go", "watchdog.go", "hold.go", "lock.go", "reentrant.go", "multilock.go", "redlock.go"} {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
		require.NoError(t, err)
		for _, decl := range parsed.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok || f.Doc == nil {
				continue
			}
			doc := strings.Join(strings.Fields(f.Doc.Text()), " ")
			if match := stated.FindStringSubmatch(doc); match != nil {
				got[f.Name.Name] = match[1]
			}
			for _, limit := range limits[f.Name.Name] {
				require.Contains(t, doc, limit, f.Name.Name)
			}
			delete(limits, f.Name.Name)
		}
	}
	require.Equal(t, want, got)
	require.Empty(t, limits, "not documented")
}

func seconds(d time.Duration) string { return fmt.Sprintf("%ds", int(d.Seconds())) }

func TestLockOptionBeatsDefault(t *testing.T) {
	t.Parallel()
	c := locktest.Unconnected(t, relock.WithBlockTimeout(time.Second), relock.WithPollInterval(40*time.Millisecond), relock.WithExpiry(8*time.Second), relock.WithMaxHold(time.Minute),
		relock.WithMinHold(time.Second), relock.WithOwner("default"), relock.WithLabel("default label"), relock.WithFencing(), relock.WithQueueLimit(7), relock.WithReplicas(2, time.Second))
	base := lockspec.Spec{
		Kind: lockspec.Reentrant, Block: true, BlockTimeout: time.Second, Poll: 40 * time.Millisecond, Lease: 8 * time.Second, MaxHold: time.Minute, MinHold: time.Second,
		Owner: "default", Label: "default%20label", Fencing: true, QueueLimit: 7, Replicas: 2, ReplicaTimeout: time.Second,
	}
	for _, tt := range []struct {
		name string
		opts []relock.LockOption
		set  func(*lockspec.Spec)
	}{
		{"nothing", nil, func(*lockspec.Spec) {}},
		{"WithBlockTimeout", []relock.LockOption{relock.WithBlockTimeout(2 * time.Second)}, func(s *lockspec.Spec) { s.BlockTimeout = 2 * time.Second }},
		{"WithBlock", []relock.LockOption{relock.WithBlock()}, func(s *lockspec.Spec) { s.BlockTimeout = 0 }}, // until ctx ends
		{"WithPollInterval", []relock.LockOption{relock.WithPollInterval(time.Second)}, func(s *lockspec.Spec) { s.Poll = time.Second }},
		{"WithExpiry", []relock.LockOption{relock.WithExpiry(4 * time.Second)}, func(s *lockspec.Spec) { s.Lease = 4 * time.Second }},
		{"WithWatchdog", []relock.LockOption{relock.WithWatchdog(4 * time.Second)}, func(s *lockspec.Spec) { s.Lease, s.Watched = 4*time.Second, true }},
		{"WithMaxHold", []relock.LockOption{relock.WithMaxHold(time.Hour)}, func(s *lockspec.Spec) { s.MaxHold = time.Hour }},
		{"WithMinHold", []relock.LockOption{relock.WithMinHold(20 * time.Millisecond)}, func(s *lockspec.Spec) { s.MinHold = 20 * time.Millisecond }},
		{"WithOwner", []relock.LockOption{relock.WithOwner("own")}, func(s *lockspec.Spec) { s.Owner = "own" }},
		{"WithLabel", []relock.LockOption{relock.WithLabel("")}, func(s *lockspec.Spec) { s.Label = "" }},
		{"WithQueueLimit", []relock.LockOption{relock.WithQueueLimit(8)}, func(s *lockspec.Spec) { s.QueueLimit = 8 }},
		{"WithReplicas", []relock.LockOption{relock.WithReplicas(1, 500*time.Millisecond)}, func(s *lockspec.Spec) { s.Replicas, s.ReplicaTimeout = 1, 500*time.Millisecond }},
		{"the last of two", []relock.LockOption{relock.WithOwner("a"), relock.WithOwner("b")}, func(s *lockspec.Spec) { s.Owner = "b" }},
		{
			"a lease that is short for the default poll interval",
			[]relock.LockOption{relock.WithExpiry(100 * time.Millisecond)},
			func(s *lockspec.Spec) {
				s.Lease, s.Poll, s.ReplicaTimeout = 100*time.Millisecond, 25*time.Millisecond, 25*time.Millisecond
			},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			want := base
			tt.set(&want)
			require.Equal(t, want, settingsOf(t, c, tt.opts...))
		})
	}
	watched := locktest.Unconnected(t, relock.WithWatchdog(3*time.Second))
	s := settingsOf(t, watched, relock.WithExpiry(2*time.Second))
	require.Equal(t, 2*time.Second, s.Lease)
	require.False(t, s.Watched)
}

// A default that a kind cannot honour is ignored there; given to the lock it is a mistake.
func TestOptionThatAKindCannotHonour(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := locktest.NewTestClient(t, s, relock.WithOwner("everybody"))
	l := relock.NewRedisLock("k", c)
	require.NoError(t, l.Validate())
	require.NoError(t, l.Lock(t.Context()))
	require.ErrorIs(t, relock.NewRedisLock("k", c).TryLock(t.Context()), relock.ErrLockAcquiredByOthers)
	require.NoError(t, l.Unlock(t.Context()))

	reentrant := relock.NewReentrantLock("k", c)
	require.NoError(t, reentrant.Lock(t.Context()))
	require.NoError(t, testkit.ResultWithin(t, testkit.Async(t, func() error { return relock.NewReentrantLock("k", c).TryLock(t.Context()) }), time.Second), "the same owner")
	require.NoError(t, reentrant.Unlock(t.Context()))
	require.NoError(t, reentrant.Unlock(t.Context()))

	requireMistakes(t, relock.NewRedisLock("k", c, relock.WithOwner("me")).Validate(), "validate", "WithOwner")
	requireMistakes(t, relock.NewRedisLock("k", c, relock.WithOwner("me")).Lock(t.Context()), "lock", "WithOwner")
	require.NoError(t, relock.NewReentrantLock("k", c, relock.WithOwner("me")).Validate())
}

func TestOptionsThatContradict(t *testing.T) {
	t.Parallel()
	_, err := relock.NewClient("tcp", "localhost:6379", "", relock.WithExpiry(time.Second), relock.WithWatchdog(time.Second))
	requireMistakes(t, err, "new client", "WithExpiry", "WithWatchdog")
	_, err = relock.NewClient("tcp", "localhost:6379", "", relock.WithMinHold(2*time.Second), relock.WithMaxHold(time.Second))
	requireMistakes(t, err, "new client", "WithMaxHold")

	c := locktest.Unconnected(t)
	for _, tt := range []struct {
		opts  []relock.LockOption
		names []string
	}{
		{[]relock.LockOption{relock.WithExpiry(time.Second), relock.WithWatchdog(time.Second)}, []string{"WithExpiry", "WithWatchdog"}},
		{[]relock.LockOption{relock.WithMinHold(2 * time.Second), relock.WithMaxHold(time.Second)}, []string{"WithMaxHold"}},
		{[]relock.LockOption{relock.WithPollInterval(30*time.Second/4 + 1)}, []string{"WithPollInterval"}},
		{[]relock.LockOption{relock.WithPollInterval(26 * time.Millisecond), relock.WithExpiry(100 * time.Millisecond)}, []string{"WithPollInterval"}},
		{[]relock.LockOption{relock.WithWatchdog(100 * time.Millisecond), relock.WithPollInterval(26 * time.Millisecond)}, []string{"WithPollInterval"}},
	} {
		requireMistakes(t, relock.NewRedisLock("k", c, tt.opts...).Validate(), "validate", tt.names...)
		requireMistakes(t, relock.NewReentrantLock("k", c, tt.opts...).Lock(t.Context()), "lock", tt.names...)
	}
	require.NoError(t, relock.NewRedisLock("k", c, relock.WithPollInterval(25*time.Millisecond), relock.WithExpiry(100*time.Millisecond)).Validate())
	require.NoError(t, relock.NewRedisLock("k", c, relock.WithPollInterval(30*time.Second/4)).Validate())
}
