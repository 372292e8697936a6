package proof

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/redistest"
)

// Clients with pools of several sizes take all kinds of locks for a long time.
// They wait, and are cancelled, and the server closes their connections.
// Afterwards this process has not a goroutine, a socket or a connection more
// than at the start, and no more memory.
//
// It counts the goroutines of the process, so it runs beside no other test.
func TestSoakLeavesNothingBehind(t *testing.T) {
	server := redistest.StartTCP(t)
	s := &soak{T: t, server: server}
	for _, opts := range [][]relock.ClientOption{
		nil,
		{relock.WithMaxActive(3)},
		{relock.WithMaxActive(3), relock.WithWaitMode()},
	} {
		opts = append(opts, relock.WithKeyPrefix(prefix), relock.WithMaxIdle(2), relock.WithWatchdog(time.Second))
		s.clients = append(s.clients, locktest.NewTestClient(t, server, opts...))
	}
	round := func() {
		s.load(time.Second/2, true)
		s.load(time.Second/2, false) // each client has what it needs again
	}
	var before footprint
	for rounds, same := 0, 0; same < 4; rounds, same = rounds+1, same+1 { // with all that a client opens once
		require.Less(t, rounds, 20, "it grows with each round: %v", before)
		round()
		most := before.most(restOf(t, server))
		if !most.isWithin(before) {
			same = 0
		}
		before = most
	}
	s.load(pick(20*time.Minute, 3*time.Second), true)
	round()
	t.Logf("%d holds, %d busy, %d cancelled, %d without an answer or a connection; %d connections killed",
		s.holds.Load(), s.busy.Load(), s.cancelled.Load(), s.unanswered.Load(), s.killed.Load())
	before.requireBack(t, round, server)
	for _, n := range []*atomic.Int64{&s.holds, &s.busy, &s.cancelled, &s.unanswered, &s.killed} {
		require.Positive(t, n.Load(), "it did not happen")
	}
}

// soak is the clients and what became of their calls.
type soak struct {
	*testing.T
	server  *redistest.Server
	clients []*relock.Client

	holds, busy, cancelled, unanswered, killed atomic.Int64
}

// load makes calls for a while, and may kill connections meanwhile.
func (s *soak) load(d time.Duration, kills bool) {
	const goroutines = 8 // of each client
	ctx, cancel := context.WithTimeout(s.Context(), d)
	defer cancel()
	var group sync.WaitGroup
	defer group.Wait()
	for _, c := range s.clients {
		for range goroutines {
			group.Go(func() {
				for ctx.Err() == nil {
					s.turn(c)
				}
			})
		}
	}
	if kills {
		group.Go(func() { s.killAll(ctx) })
	}
}

// killAll closes one connection after another, at the server.
func (s *soak) killAll(ctx context.Context) {
	conn := s.server.Dial(s)
	defer conn.Close() //nolint:errcheck // the commands' errors count
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(rand.N(40 * time.Millisecond)):
		}
		ids := redistest.Connections(s, conn)
		for id := range ids { // the first is a random one
			if _, err := conn.Do("CLIENT", "KILL", "ID", id); err != nil {
				s.Errorf("CLIENT KILL: %v", err)
			}
			s.killed.Add(1)
			break
		}
	}
}

// turn is one call, and the hold that it may get.
func (s *soak) turn(c *relock.Client) {
	ctx, cancel := context.WithCancel(s.Context())
	defer cancel()
	defer time.AfterFunc(time.Millisecond+rand.N(40*time.Millisecond), cancel).Stop()
	h, err := s.lockOf(c)(ctx)
	if err != nil {
		s.note(err)
		return
	}
	s.holds.Add(1)
	if rand.N(4) == 0 {
		s.note(h.Extend(ctx, 2*time.Second))
	}
	select {
	case <-time.After(rand.N(3 * time.Millisecond)):
	case <-h.Context().Done():
	}
	s.note(h.Unlock(s.Context()))
}

// lockOf returns a call of a random kind of lock. One key in four is new, so
// that a client that keeps something of each key has ever more.
func (s *soak) lockOf(c *relock.Client) func(context.Context) (relock.Hold, error) {
	name := fmt.Sprint("hot", rand.N(3))
	if rand.N(4) == 0 {
		name = fmt.Sprint("new", rand.Uint64())
	}
	var opts []relock.LockOption
	if rand.N(4) > 0 {
		opts = append(opts, relock.WithBlock())
	}
	kind := rand.N(6)
	if kind == 0 {
		return relock.NewMultiLock([]string{"{multi}" + name, "{multi}hot"}, c, opts...).Acquire
	}
	if rand.N(2) == 0 {
		opts = append(opts, relock.WithFair())
		name = "fair " + name
	}
	switch kind {
	case 1:
		return relock.NewRWLock("rw "+name, c, opts...).Acquire
	case 2:
		return relock.NewRWLock("rw "+name, c, opts...).RAcquire
	case 3:
		return relock.NewSemaphore("permits "+name, 2, c, opts...).Acquire
	case 4:
		return relock.NewReentrantLock("reentrant "+name, c, opts...).Acquire
	}
	return relock.NewRedisLock(name, c, opts...).Acquire
}

// note counts how a call has ended. Any other end fails the test.
func (s *soak) note(err error) {
	is := func(causes ...error) bool {
		return slices.ContainsFunc(causes, func(cause error) bool { return errors.Is(err, cause) })
	}
	switch {
	case err == nil:
	case is(context.Canceled):
		s.cancelled.Add(1)
	case is(relock.ErrLockAcquiredByOthers):
		s.busy.Add(1)
	case is(relock.ErrUnconfirmed, relock.ErrLockLost) || relock.IsRetryableErr(err):
		s.unanswered.Add(1)
	default:
		s.Errorf("a call has failed: %v", err)
	}
}
