package relock

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

	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/redistest"
)

// What a pool of the user's own does itself cannot be set beside it.
func TestPoolOptionsBesideAPool(t *testing.T) {
	t.Parallel()
	pool := &redis.Pool{Dial: func() (redis.Conn, error) { return nil, context.Canceled }}
	for name, opt := range map[string]ClientOption{
		"WithMaxIdle": WithMaxIdle(10), "WithMaxActive": WithMaxActive(0), "WithIdleTimeout": WithIdleTimeout(time.Minute), "WithWaitMode": WithWaitMode(),
		"WithUsername": WithUsername(""), "WithDatabase": WithDatabase(0), "WithTLS": WithTLS(nil), "WithDialTimeout": WithDialTimeout(time.Second),
	} {
		_, err := NewClientPool(pool, opt)
		requireMistakes(t, err, "new client", name, "pool")
	}
	var log logBuffer
	c, err := NewClientPool(pool, WithCommandTimeout(time.Second), WithKeyPrefix("p:"), log.option(), WithBlock(), WithExpiry(time.Second))
	require.NoError(t, err)
	require.NoError(t, c.Close())
}

// settingsOf are what a lock goes by.
func settingsOf(t testing.TB, c *Client, opts ...LockOption) lockspec.Spec {
	t.Helper()
	l := NewReentrantLock("k", c, opts...)
	require.NoError(t, l.Validate())
	return l.target.Settings
}

func TestDefaults(t *testing.T) {
	t.Parallel()
	c := unconnected(t)
	require.Equal(t, 10, c.config.MaxIdle)
	require.Equal(t, 0, c.config.MaxActive)
	require.False(t, c.config.Wait)
	require.Equal(t, 60*time.Second, c.config.IdleTimeout)
	require.Equal(t, 5*time.Second, c.config.DialTimeout)
	require.Equal(t, 3*time.Second, c.config.CommandTimeout)
	require.Equal(t, "relock:", c.config.prefix)
	require.Empty(t, c.config.Username)
	require.Equal(t, 0, c.config.Database)
	require.False(t, c.config.UseTLS)
	require.False(t, c.engine.Logger.Enabled(t.Context(), slog.LevelError))
	pool := poolOf(c)
	require.Equal(t, 10, pool.MaxIdle)
	require.Equal(t, 0, pool.MaxActive)
	require.False(t, pool.Wait)
	require.Equal(t, 60*time.Second, pool.IdleTimeout)

	require.Equal(t, lockspec.Spec{Kind: lockspec.Reentrant, Poll: 50 * time.Millisecond, Lease: 30 * time.Second, Watched: true}, settingsOf(t, c))
	require.Equal(t, lockspec.Spec{Kind: lockspec.Reentrant, Poll: 50 * time.Millisecond, Lease: 200 * time.Millisecond, Watched: true}, settingsOf(t, c, WithWatchdog(200*time.Millisecond)))
	require.Equal(t, lockspec.Spec{Kind: lockspec.Reentrant, Poll: 25 * time.Millisecond, Lease: 100 * time.Millisecond, Watched: true}, settingsOf(t, c, WithWatchdog(100*time.Millisecond)))
	require.Equal(t, lockspec.Spec{Kind: lockspec.Reentrant, Poll: 2500 * time.Microsecond, Lease: 10 * time.Millisecond}, settingsOf(t, c, WithExpiry(10*time.Millisecond)))
}

// Each default that a doc comment states is the one that is there.
func TestDocumentedDefaults(t *testing.T) {
	t.Parallel()
	c := newClientConfig(nil)
	s := lockspec.Resolve(lockspec.Options{}, lockspec.Options{}, lockspec.Quorum, &lockspec.Problems{})
	want := map[string]string{
		"WithMaxIdle":        fmt.Sprint(c.MaxIdle),
		"WithMaxActive":      fmt.Sprint(c.MaxActive),
		"WithIdleTimeout":    seconds(c.IdleTimeout),
		"WithDialTimeout":    seconds(c.DialTimeout),
		"WithCommandTimeout": seconds(c.CommandTimeout),
		"WithDatabase":       fmt.Sprint(c.Database),
		"WithKeyPrefix":      fmt.Sprintf("%q", c.prefix),
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
	c := unconnected(t, WithBlockTimeout(time.Second), WithPollInterval(40*time.Millisecond), WithExpiry(8*time.Second), WithMaxHold(time.Minute),
		WithMinHold(time.Second), WithLabel("default label"), WithFencing(), WithQueueLimit(7), WithReplicas(2, time.Second))
	base := lockspec.Spec{
		Kind: lockspec.Reentrant, Block: true, BlockTimeout: time.Second, Poll: 40 * time.Millisecond, Lease: 8 * time.Second, MaxHold: time.Minute, MinHold: time.Second,
		Label: "default%20label", Fencing: true, QueueLimit: 7, Replicas: 2, ReplicaTimeout: time.Second,
	}
	for _, tt := range []struct {
		name string
		opts []LockOption
		set  func(*lockspec.Spec)
	}{
		{"nothing", nil, func(*lockspec.Spec) {}},
		{"WithBlockTimeout", []LockOption{WithBlockTimeout(2 * time.Second)}, func(s *lockspec.Spec) { s.BlockTimeout = 2 * time.Second }},
		{"WithBlock", []LockOption{WithBlock()}, func(s *lockspec.Spec) { s.BlockTimeout = 0 }}, // until ctx ends
		{"WithPollInterval", []LockOption{WithPollInterval(time.Second)}, func(s *lockspec.Spec) { s.Poll = time.Second }},
		{"WithExpiry", []LockOption{WithExpiry(4 * time.Second)}, func(s *lockspec.Spec) { s.Lease = 4 * time.Second }},
		{"WithWatchdog", []LockOption{WithWatchdog(4 * time.Second)}, func(s *lockspec.Spec) { s.Lease, s.Watched = 4*time.Second, true }},
		{"WithMaxHold", []LockOption{WithMaxHold(time.Hour)}, func(s *lockspec.Spec) { s.MaxHold = time.Hour }},
		{"WithMinHold", []LockOption{WithMinHold(20 * time.Millisecond)}, func(s *lockspec.Spec) { s.MinHold = 20 * time.Millisecond }},
		{"WithLabel", []LockOption{WithLabel("")}, func(s *lockspec.Spec) { s.Label = "" }},
		{"WithQueueLimit", []LockOption{WithQueueLimit(8)}, func(s *lockspec.Spec) { s.QueueLimit = 8 }},
		{"WithReplicas", []LockOption{WithReplicas(1, 500*time.Millisecond)}, func(s *lockspec.Spec) { s.Replicas, s.ReplicaTimeout = 1, 500*time.Millisecond }},
		{"the last of two", []LockOption{WithLabel("a"), WithLabel("b")}, func(s *lockspec.Spec) { s.Label = "b" }},
		{
			"a lease that is short for the default poll interval",
			[]LockOption{WithExpiry(100 * time.Millisecond)},
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
	watched := unconnected(t, WithWatchdog(3*time.Second))
	s := settingsOf(t, watched, WithExpiry(2*time.Second))
	require.Equal(t, 2*time.Second, s.Lease)
	require.False(t, s.Watched)
}

// A default that a kind cannot honour is ignored there; given to the lock it is a mistake.
func TestOptionThatAKindCannotHonour(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := newTestClient(t, s, WithMaxLease(time.Second)) // below the lease
	for _, l := range []anyLock{NewRedisLock("k", c), NewReentrantLock("k", c)} {
		require.NoError(t, l.Validate())
		require.NoError(t, l.Lock(t.Context()))
		require.NoError(t, l.Unlock(t.Context()))
	}
	requireMistakes(t, NewRedisLock("k", c, WithMaxLease(time.Minute)).Validate(), "validate", "WithMaxLease")
	requireMistakes(t, NewRedisLock("k", c, WithMaxLease(time.Minute)).Lock(t.Context()), "lock", "WithMaxLease")
}

func TestOptionsThatContradict(t *testing.T) {
	t.Parallel()
	_, err := NewClient("tcp", "localhost:6379", "", WithExpiry(time.Second), WithWatchdog(time.Second))
	requireMistakes(t, err, "new client", "WithExpiry", "WithWatchdog")
	_, err = NewClient("tcp", "localhost:6379", "", WithMinHold(2*time.Second), WithMaxHold(time.Second))
	requireMistakes(t, err, "new client", "WithMaxHold")

	c := unconnected(t)
	for _, tt := range []struct {
		opts  []LockOption
		names []string
	}{
		{[]LockOption{WithExpiry(time.Second), WithWatchdog(time.Second)}, []string{"WithExpiry", "WithWatchdog"}},
		{[]LockOption{WithMinHold(2 * time.Second), WithMaxHold(time.Second)}, []string{"WithMaxHold"}},
		{[]LockOption{WithPollInterval(30*time.Second/4 + 1)}, []string{"WithPollInterval"}},
		{[]LockOption{WithPollInterval(26 * time.Millisecond), WithExpiry(100 * time.Millisecond)}, []string{"WithPollInterval"}},
		{[]LockOption{WithWatchdog(100 * time.Millisecond), WithPollInterval(26 * time.Millisecond)}, []string{"WithPollInterval"}},
	} {
		requireMistakes(t, NewRedisLock("k", c, tt.opts...).Validate(), "validate", tt.names...)
		requireMistakes(t, NewReentrantLock("k", c, tt.opts...).Lock(t.Context()), "lock", tt.names...)
	}
	require.NoError(t, NewRedisLock("k", c, WithPollInterval(25*time.Millisecond), WithExpiry(100*time.Millisecond)).Validate())
	require.NoError(t, NewRedisLock("k", c, WithPollInterval(30*time.Second/4)).Validate())
}
