package conform_test

import (
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/relocktest/conform"
)

// A MultiLock of one key keeps the promises of all.
func TestConformanceOfMultiLock(t *testing.T) {
	t.Parallel()
	s := oneServer(t)
	locker := func(c *relock.Client) relock.Locker {
		return locktest.LockerOf(func(key string) locktest.Acquirer {
			return relock.NewMultiLock([]string{key}, c,
				relock.WithWatchdog(locktest.ConformLease), relock.WithBlock(), relock.WithFencing())
		})
	}
	conform.Run(t, conform.Backend{
		New:   func(t *testing.T) relock.Locker { return locker(s.Plain(t)) },
		Lease: locktest.ConformLease, Fenced: true, Refuses: true,
		Faulty: func(t *testing.T) relock.Locker { return locker(s.ThroughFaults(t)) },
		Break:  s.Break, Waiting: s.Waiting, Left: s.Left,
	})
}

// A RedLock on three nodes does, too: on servers, and on topologies of two
// servers each. It has no queue.
func TestConformanceOfRedLock(t *testing.T) {
	t.Parallel()
	for name, newNode := range map[string]func(t *testing.T, prefix string) locktest.ConformServers{
		"servers": func(t *testing.T, prefix string) locktest.ConformServers {
			return locktest.ConformServers{Prefix: prefix}.At(redistest.Start(t))
		},
		"routed": twoServers,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			prefix := locktest.NewConformPrefix()
			redLockConforms(t, []locktest.ConformServers{newNode(t, prefix), newNode(t, prefix), newNode(t, prefix)})
		})
	}
}

func redLockConforms(t *testing.T, nodes []locktest.ConformServers) {
	t.Helper()
	const largest = 3 * locktest.ConformLease // that the suite asks for
	for _, node := range nodes {
		for _, s := range node.All {
			s.AwaitUp(t, int(largest/time.Second)+2)
		}
	}
	locker := func(t *testing.T, client func(locktest.ConformServers, *testing.T) *relock.Client) relock.Locker {
		var clients []*relock.Client
		for _, node := range nodes {
			clients = append(clients, client(node, t))
		}
		return locktest.LockerOf(func(key string) locktest.Acquirer {
			return relock.NewRedLock(key, clients,
				relock.WithMaxLease(largest), relock.WithWatchdog(locktest.ConformLease), relock.WithBlock(),
				relock.WithPollInterval(5*time.Millisecond), relock.WithFencing())
		})
	}
	conform.Run(t, conform.Backend{
		New:   func(t *testing.T) relock.Locker { return locker(t, locktest.ConformServers.Plain) },
		Lease: locktest.ConformLease, Fenced: true, Refuses: true,
		Faulty: func(t *testing.T) relock.Locker { return locker(t, locktest.ConformServers.ThroughFaults) },
		Break: func(t *testing.T, key string) {
			for _, node := range nodes {
				node.Break(t, key)
			}
		},
		Left: func(t *testing.T, key string) (left []string) {
			for _, node := range nodes {
				left = append(left, node.Left(t, key)...)
			}
			return left
		},
	})
}
