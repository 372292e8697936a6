package conform_test

import (
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/relocktest/conform"
)

// A MultiLock of one key keeps the promises of all.
func TestConformanceOfMultiLock(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	locker := func(c *relock.Client) relock.Locker {
		return kindOfLock(func(key string) lock {
			return relock.NewMultiLock([]string{key}, c, relock.WithWatchdog(testLease), relock.WithBlock(), relock.WithFencing())
		})
	}
	conform.Run(t, conform.Backend{
		New:   func(t *testing.T) relock.Locker { return locker(s.client(t, s.Network, s.Address)) },
		Lease: testLease, Fenced: true, Refuses: true,
		Faulty: func(t *testing.T) relock.Locker {
			network, address := s.faulty(t)
			return locker(s.client(t, network, address, relock.WithCommandTimeout(testLease/5)))
		},
		Break: s.breakLock, Waiting: s.waiting, Left: s.left,
	})
}

// A RedLock on three servers does, too. It has no queue.
func TestConformanceOfRedLock(t *testing.T) {
	t.Parallel()
	const largest = 3 * testLease // that the suite asks for
	servers := []*server{newServer(t), newServer(t), newServer(t)}
	for _, s := range servers {
		s.prefix = servers[0].prefix
		s.AwaitUp(t, int(largest/time.Second)+2)
	}
	locker := func(clients []*relock.Client) relock.Locker {
		return kindOfLock(func(key string) lock {
			return relock.NewRedLock(key, clients, relock.WithMaxLease(largest), relock.WithWatchdog(testLease), relock.WithBlock(),
				relock.WithPollInterval(5*time.Millisecond), relock.WithFencing())
		})
	}
	conform.Run(t, conform.Backend{
		New: func(t *testing.T) relock.Locker {
			var clients []*relock.Client
			for _, s := range servers {
				clients = append(clients, s.client(t, s.Network, s.Address))
			}
			return locker(clients)
		},
		Lease: testLease, Fenced: true, Refuses: true,
		Faulty: func(t *testing.T) relock.Locker {
			var clients []*relock.Client
			for _, s := range servers {
				network, address := s.faulty(t)
				clients = append(clients, s.client(t, network, address, relock.WithCommandTimeout(testLease/5)))
			}
			return locker(clients)
		},
		Break: func(t *testing.T, key string) {
			for _, s := range servers {
				s.breakLock(t, key)
			}
		},
		Left: func(t *testing.T, key string) (left []string) {
			for _, s := range servers {
				left = append(left, s.left(t, key)...)
			}
			return left
		},
	})
}
