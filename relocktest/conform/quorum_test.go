package conform_test

import (
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/conformtest"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/relocktest/conform"
)

// A MultiLock of one key keeps the promises of all.
func TestConformanceOfMultiLock(t *testing.T) {
	t.Parallel()
	s := oneServer(t)
	locker := func(c *relock.Client) relock.Locker {
		return conformtest.KindOfLock(func(key string) conformtest.Lock {
			return relock.NewMultiLock([]string{key}, c, relock.WithWatchdog(conformtest.Lease), relock.WithBlock(), relock.WithFencing())
		})
	}
	conform.Run(t, conform.Backend{
		New:   func(t *testing.T) relock.Locker { return locker(s.Plain(t)) },
		Lease: conformtest.Lease, Fenced: true, Refuses: true,
		Faulty: func(t *testing.T) relock.Locker { return locker(s.ThroughFaults(t)) },
		Break:  s.Break, Waiting: s.Waiting, Left: s.Left,
	})
}

// A RedLock on three nodes does, too: on servers, and on topologies of two
// servers each. It has no queue.
func TestConformanceOfRedLock(t *testing.T) {
	t.Parallel()
	for name, newNode := range map[string]func(t *testing.T, prefix string) conformtest.Servers{
		"servers": func(t *testing.T, prefix string) conformtest.Servers {
			return conformtest.Servers{Prefix: prefix}.At(redistest.Start(t))
		},
		"routed": twoServers,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			prefix := conformtest.NewPrefix()
			redLockConforms(t, []conformtest.Servers{newNode(t, prefix), newNode(t, prefix), newNode(t, prefix)})
		})
	}
}

func redLockConforms(t *testing.T, nodes []conformtest.Servers) {
	t.Helper()
	const largest = 3 * conformtest.Lease // that the suite asks for
	for _, node := range nodes {
		for _, s := range node.All {
			s.AwaitUp(t, int(largest/time.Second)+2)
		}
	}
	locker := func(t *testing.T, client func(conformtest.Servers, *testing.T) *relock.Client) relock.Locker {
		var clients []*relock.Client
		for _, node := range nodes {
			clients = append(clients, client(node, t))
		}
		return conformtest.KindOfLock(func(key string) conformtest.Lock {
			return relock.NewRedLock(key, clients, relock.WithMaxLease(largest), relock.WithWatchdog(conformtest.Lease), relock.WithBlock(),
				relock.WithPollInterval(5*time.Millisecond), relock.WithFencing())
		})
	}
	conform.Run(t, conform.Backend{
		New:   func(t *testing.T) relock.Locker { return locker(t, conformtest.Servers.Plain) },
		Lease: conformtest.Lease, Fenced: true, Refuses: true,
		Faulty: func(t *testing.T) relock.Locker { return locker(t, conformtest.Servers.ThroughFaults) },
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
