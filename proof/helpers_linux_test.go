package proof

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"unsafe"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/faults"
	"github.com/relock-go/relock/internal/test/redistest"
)

// roles are what the helper processes of this package do.
var roles = map[string]faults.Role{
	"contender":  withClient(contenderRole),
	"rival":      rivalRole,
	"permits":    withClient(permitRole),
	"limited":    limitedRole,
	"losers":     losersRole,
	"holder":     withClient(holderRole),
	"fenced":     fencedRole,
	"worker":     workerRole,
	"taskholder": withClient(taskHolderRole),
	"mover":      withClient(moverRole),
	"candidate":  withClient(candidateRole),
}

const (
	plain     = "RedisLock"
	reentrant = "ReentrantLock"
)

var kindsOfLocks = []string{plain, reentrant}

// processLock is what the two kinds of locks have in common.
type processLock interface {
	Acquire(ctx context.Context) (relock.Hold, error)
}

func newLockOf(kind, key string, client *relock.Client, opts ...relock.LockOption) processLock {
	switch kind {
	case reentrant:
		return relock.NewReentrantLock(key, client, opts...)
	case toWrite:
		return relock.NewRWLock(key, client, opts...)
	case toRead:
		return reading{relock.NewRWLock(key, client, opts...)}
	}
	return relock.NewRedisLock(key, client, opts...)
}

// keyInRedis is where a lock is.
func keyInRedis(key string) string { return prefix + "{" + key + "}" }

// withClient gives a role the client of its first two arguments, and closes it.
func withClient(role func(*faults.Self, *relock.Client) error) faults.Role {
	return func(self *faults.Self) error {
		client, err := newProcessClient(self.Args[0], self.Args[1])
		if err != nil {
			return err
		}
		return errors.Join(role(self, client), client.Close())
	}
}

func newProcessClient(network, address string) (*relock.Client, error) {
	return relock.NewClient(network, address,
		"", relock.WithKeyPrefix(prefix), relock.WithMaxIdle(16), relock.WithLogger(slog.New(slog.DiscardHandler)))
}

func newParentClient(tb testing.TB, s *redistest.Server) *relock.Client {
	tb.Helper()
	client, err := newProcessClient(s.Network, s.Address)
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, client.Close()) })
	return client
}

// newShared maps a new file that has room for one T, and is zero.
func newShared[T any](tb testing.TB) (path string, shared *T) {
	tb.Helper()
	path = filepath.Join(tb.TempDir(), "shared")
	require.NoError(tb, os.WriteFile(path, make([]byte, unsafe.Sizeof(*shared)), 0o600))
	shared, err := openShared[T](path)
	require.NoError(tb, err)
	return path, shared
}

// openShared maps a file that processes share, so that writes survive a kill.
// It is never unmapped.
func openShared[T any](path string) (shared *T, err error) {
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer file.Close() //nolint:errcheck // the mapping stays
	memory, err := syscall.Mmap(int(file.Fd()), 0, int(unsafe.Sizeof(*shared)),
		syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map %s: %w", path, err)
	}
	return (*T)(unsafe.Pointer(&memory[0])), nil
}

// register is a number that processes share without any protection.
type register struct{ value int64 }

func (r *register) read() int64 { return atomic.LoadInt64(&r.value) }

// write returns the value that it replaced, which shows lost updates. Between
// read and write the register is unprotected.
func (r *register) write(n int64) (before int64) { return atomic.SwapInt64(&r.value, n) }

// loadScripts loads relock's scripts into the server, so that each of their
// calls is one request. It returns the digests by name.
func loadScripts(tb testing.TB, s *redistest.Server) map[string]string {
	tb.Helper()
	digests := map[string]string{}
	for name, source := range scriptSources() {
		digest, err := redis.String(s.Do(tb, "SCRIPT", "LOAD", source), nil)
		require.NoError(tb, err)
		digests[name] = digest
	}
	return digests
}

// ofKey matches what names the lock.
func ofKey(key string) faults.Match {
	return func(args []string) bool { return slices.Contains(args, keyInRedis(key)) }
}

// newSeededRandom returns a random source whose seed is logged. RELOCK_SEED
// replays it.
func newSeededRandom(tb testing.TB) *rand.Rand {
	tb.Helper()
	seed := rand.Uint64()
	if given, err := strconv.ParseUint(os.Getenv("RELOCK_SEED"), 10, 64); err == nil {
		seed = given
	}
	tb.Logf("RELOCK_SEED=%d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}
