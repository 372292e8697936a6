package test

import (
	"bytes"
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	etcdlock "github.com/relock-go/relock/etcd"
	"github.com/relock-go/relock/internal/test/testkit"
)

// logged is a log that tests read while others write.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logged) contains(text string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Contains(l.text.String(), text)
}

// lines returns how many lines contain all of the texts.
func (l *logged) lines(texts ...string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.text.String()) {
		if !slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(line, text) }) {
			n++
		}
	}
	return n
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func (l *logged) option() etcdlock.Option {
	return etcdlock.WithLogger(slog.New(slog.NewTextHandler(l, nil)))
}

// A refused attempt says that it was one. A conflict names what was found and
// what was requested.
func TestRefusalSaysWhy(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	admin := c.client(t)
	fair, unfair := newLocker(t, c.client(t), etcdlock.WithFair()), newLocker(t, c.client(t))
	_, err := admin.Put(limited(t), "relock/lock/theirs/", "what another program has put")
	require.NoError(t, err)
	defer unlock(t, lock(t, fair, "fair"))
	defer unlock(t, lock(t, unfair, "unfair"))
	const conflict = "key is used by something else: "
	for _, tt := range []struct {
		by        *etcdlock.Locker
		key, want string
	}{
		{fair, "unfair", conflict + "held as an unfair lock, requested as fair"},
		{unfair, "fair", conflict + "held as a fair lock, requested as unfair"},
		{fair, "theirs", conflict + "used by another program"},
		{unfair, "theirs", conflict + "used by another program"},
	} {
		for _, call := range []func(context.Context, string) (relock.Hold, error){tt.by.TryLock, tt.by.Lock} {
			_, err := call(limited(t), tt.key)
			require.ErrorIs(t, err, relock.ErrKeyConflict)
			require.EqualError(t, err, `relock: lock "`+tt.key+`": `+tt.want)
		}
	}
	for key, l := range map[string]*etcdlock.Locker{"fair": fair, "unfair": unfair} {
		_, err := l.TryLock(limited(t), key)
		require.EqualError(t, err, `relock: lock "`+key+`": lock is held by others (one attempt)`)
		require.Equal(t, relock.OutcomeBusy, relock.OutcomeOf(err))
	}
}

// A loss says which one it is.
func TestLossSaysWhich(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		lose func(t *testing.T, c *cluster, hold relock.Hold)
		want string
	}{
		"deleted": {func(t *testing.T, c *cluster, _ relock.Hold) {
			_, err := c.client(t).Delete(limited(t), "relock/lock/key/")
			require.NoError(t, err)
		}, `the server no longer has it`},
		"lease revoked": {
			func(t *testing.T, c *cluster, _ relock.Hold) { revokeAll(t, c.client(t)) }, `the server no longer has it`,
		},
		"not renewed": {
			func(_ *testing.T, c *cluster, _ relock.Hold) { c.crash(0) },
			`not renewed since \d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}(Z|[+-]\d\d:\d\d): .*connect.*`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, 1)
			hold := lock(t, newLocker(t, c.client(t), etcdlock.WithTTL(brief)), "key")
			tt.lose(t, c, hold)
			_ = testkit.EndedWithin(t, hold.Context(), patience)
			for _, err := range []error{hold.Err(), context.Cause(hold.Context()), hold.Unlock(context.Background())} {
				require.ErrorIs(t, err, relock.ErrLockLost)
				require.Regexp(t, `lock lost \(`+tt.want+`\)$`, err.Error())
			}
			require.Zero(t, hold.Remaining())
		})
	}
}

// A lease that is lost is one line, with the locks that were under it.
func TestLostLeaseIsOneLine(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	var log logged
	l := newLocker(t, c.client(t), log.option())
	hold := lock(t, l, "a lock")
	lockMany(t, l, 11)
	revokeAll(t, c.client(t))
	foundLost(t, hold, lease)
	soon(t, "logged", func() bool { return log.contains("lost") })
	require.Equal(t, 1, log.lines(
		`level=WARN msg="relock: lease lost" kind=etcd holds=12 keys="[`,
		` and 2 more]" reason="lock lost (the server no longer has it)"`,
	), log.String())
	require.Equal(t, 1, log.lines("level=WARN"), log.String())
}

// A client that is closed leaves the locks of its Locker for their lease. The
// log names them.
func TestClosedClientSaysWhatItLeaves(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	client := c.client(t)
	var log logged
	l := newLocker(t, client, etcdlock.WithTTL(100*time.Second), log.option())
	first, second := lock(t, l, "first"), lock(t, l, "second")
	require.NoError(t, client.Close())
	soon(t, "logged", func() bool {
		return log.contains(`msg="relock: closed with 2 locks held" keys="[first second]" free_in=1m`)
	})
	require.ErrorIs(t, first.Err(), relock.ErrClosed)
	require.ErrorIs(t, second.Err(), relock.ErrClosed)
}
