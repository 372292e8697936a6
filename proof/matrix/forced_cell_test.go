package matrix_test

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/test/faults"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/testkit"
)

// forcedCell is a hold that is ended by force. One request of that meets one
// fault.
type forcedCell struct {
	*locktest.FaultBench
	forcedKind
	fault  fault
	hold   relock.Hold
	forced <-chan error
	met    <-chan struct{} // when the fault has happened
}

// watched is the lease of a hold that is renewed.
var watched = relock.WithWatchdog(locktest.FaultLease)

// requestOf matches the calls of a script with this first argument, if it is
// not empty.
func requestOf(s *script.Script, word string) faults.Match {
	match := faults.Script(s.SHA)
	return func(args []string) bool { return match(args) && (word == "" || slices.Contains(args, word)) }
}

func (c *forcedCell) meet(match faults.Match) { c.met = c.Proxy.On(match, 1, c.fault.action) }

func (c *forcedCell) newLock(client *relock.Client, opts ...relock.LockOption) locktest.AnyLock {
	return locktest.AllKinds[c.lock](locktest.FaultKey, client, opts...)
}

// take has a client hold the lock.
func (c *forcedCell) take(client *relock.Client, lease relock.LockOption) {
	c.hold = locktest.Take(c, c.newLock(client, lease).Acquire)
}

// force has the operator end what has the lock.
func (c *forcedCell) force(operator *relock.Client) {
	c.forced = testkit.Async(c, func() error {
		return operator.ForceUnlock(context.Background(), locktest.FaultKey, "it hangs")
	})
}

// mark has the other client end the hold, which is marked then.
func (c *forcedCell) mark() {
	c.force(c.Other)
	locktest.AwaitMarked(c, c.Other, locktest.FaultKey)
}

func (c *forcedCell) look() { c.operate("look", c.Other) }

func (c *forcedCell) end() { c.operate("end", c.Other) }

func (c *forcedCell) endOwn() { c.operate("end", c.Client) }

// operate has the client behind the proxy end the hold of another, or its own.
func (c *forcedCell) operate(word string, holder *relock.Client) {
	c.take(holder, watched)
	c.meet(requestOf(c.forcedKind.end, word))
	c.force(c.Client)
}

// listen subscribes the client behind the proxy: it waits for another lock. It
// returns what ends that.
func (c *forcedCell) listen() (stop func()) {
	other := locktest.Take(c, relock.NewRedisLock("other", c.Other).Acquire)
	ctx, cancel := context.WithCancel(context.Background())
	waits := testkit.Async(c, func() error {
		return relock.NewRedisLock("other", c.Client, relock.WithBlock()).Lock(ctx)
	})
	c.Cleanup(cancel)
	testkit.Eventually(c, testkit.Patience, func() bool { return locktest.IsSubscribed(c.Client, "other") }, "subscribed")
	return func() {
		cancel()
		require.ErrorIs(c, testkit.ResultWithin(c, waits, testkit.Patience), context.Canceled)
		require.NoError(c, other.Unlock(context.Background()))
	}
}

func (c *forcedCell) byMessage() { c.notified(requestOf(script.Notice, "")) }

func (c *forcedCell) releaseAfterMessage() { c.notified(requestOf(c.release, "")) }

// notified has the holder learn of the mark by the message.
func (c *forcedCell) notified(match faults.Match) {
	c.take(c.Client, watched)
	defer c.listen()()
	c.meet(match)
	c.force(c.Other)
	c.settle()
}

func (c *forcedCell) byPoll() {
	c.take(c.Client, relock.WithExpiry(locktest.FaultLease))
	c.asks()
}

func (c *forcedCell) byRenewal() {
	c.take(c.Client, watched)
	c.asks()
}

// asks makes a renewal due, or a poll for the mark.
func (c *forcedCell) asks() {
	c.mark()
	c.meet(requestOf(c.renew, ""))
	locktest.RenewNow(c.hold)
}

func (c *forcedCell) byExtend() {
	c.take(c.Client, watched)
	c.mark()
	c.meet(requestOf(c.renew, ""))
	c.requireRefused(c.hold.Extend(context.Background(), locktest.FaultLease))
}

func (c *forcedCell) byEnter() {
	c.take(c.Client, watched)
	c.mark()
	c.meet(requestOf(c.enter, ""))
	_, err := c.newLock(c.Client).TryAcquire(context.Background())
	c.requireRefused(err)
}

func (c *forcedCell) byUnlock() {
	c.take(c.Client, watched)
	c.mark()
	c.meet(requestOf(c.release, ""))
	c.requireRefused(c.hold.Unlock(context.Background()))
	c.hold = nil // its error has been seen
}

// requireRefused checks the error of a call of the holder. Without an answer,
// it may pass.
func (c *forcedCell) requireRefused(err error) {
	c.Helper()
	if !relock.IsRetryableErr(err) && !errors.Is(err, relock.ErrUnconfirmed) {
		locktest.RequireIs(c, err, relock.ErrForced, relock.ErrLockLost)
	}
}

// byClaim has a waiter claim the lock, whose hold is marked before it knows.
func (c *forcedCell) byClaim() {
	blocker := c.forcedKind
	if blocker.lock == "RWLock, reading" {
		blocker.lock = "RWLock"
	}
	first := locktest.Take(c, locktest.AllKinds[blocker.lock](locktest.FaultKey, c.Other).Acquire)
	claims, open := requestOf(c.claim, ""), make(chan struct{})
	executed := c.Proxy.On(claims, 1, faults.CutAfter)
	c.met = c.Proxy.On(claims, 2, c.fault.action.Gated(open))
	q := &locktest.QueueBench{
		TB: c, QueueMode: locktest.QueueMode{Kind: c.lock}, Server: c.Server,
		Clients: []*relock.Client{c.Client, c.Other}, Key: c.Key,
	}
	w := q.Wait(context.Background(), c.Client, relock.WithWatchdog(locktest.FaultLease))
	q.AwaitQueued(1)
	q.Unlock(first)
	c.Await(executed, "the lock was not claimed")
	c.mark()
	close(open)
	c.settle()
	c.hold = w.Granted()
	if c.hold.Err() == nil { // it waited on, and has the lock by another name
		require.NoError(c, c.hold.Unlock(context.Background()))
		c.hold = nil
	}
}

// settle waits until ForceUnlock has returned, and the holder knows of its end.
// If the fault has lost the hint, a renewal finds the mark. Without an answer,
// ForceUnlock is called again.
func (c *forcedCell) settle() {
	c.Helper()
	const nudge = 700 * time.Millisecond
	last := time.Now()
	testkit.Eventually(c, testkit.Patience, func() bool {
		select {
		case err := <-c.forced:
			c.handedOn(err)
		default:
		}
		switch {
		case c.hold == nil:
		case c.hold.Err() != nil:
			c.requireEnded()
		case time.Since(last) > nudge:
			locktest.RenewNow(c.hold)
			last = time.Now()
		}
		return c.hold == nil && c.forced == nil
	}, "the lock is not handed on")
}

// handedOn takes the result of ForceUnlock.
func (c *forcedCell) handedOn(err error) {
	c.Helper()
	c.forced = nil
	switch {
	case errors.Is(err, relock.ErrUnconfirmed) || relock.IsRetryableErr(err):
		c.force(c.Client)
	case !errors.Is(err, relock.ErrNotHeld): // else it has ended before the call was repeated
		require.NoError(c, err)
	}
}

// requireEnded checks that the holder knows why its hold has ended.
func (c *forcedCell) requireEnded() {
	c.Helper()
	locktest.RequireIs(c, context.Cause(c.hold.Context()), relock.ErrForced, relock.ErrLockLost)
	locktest.RequireIs(c, c.hold.Unlock(context.Background()), relock.ErrForced, relock.ErrLockLost)
	c.hold = nil
}

// goOn checks that the lock is handed off before the lease ends, and that what
// comes late touches nothing of the next hold. Then nothing is left.
func (c *forcedCell) goOn() {
	watch := testkit.NewStopwatch(c)
	c.settle()
	watch.Within(locktest.FaultLease*4/5, "it had to wait for the end of a lease")
	watch.Net() // stops it
	next := locktest.Take(c, c.newLock(c.Other, relock.WithExpiry(locktest.FaultLease)).TryAcquire)
	before := c.Read()
	_, _ = testkit.Await(c.met, 4*locktest.AnswerLimit)
	c.Proxy.Release()
	time.Sleep(20 * time.Millisecond) // for what should not happen
	require.NoError(c, next.Err())
	c.RequireUntouched(before, c.Read())
	require.NoError(c, next.Unlock(context.Background()))
	c.requireNothingLeft()
}

// requireNothingLeft waits until nothing is left but the reason, which expires.
func (c *forcedCell) requireNothingLeft() {
	c.Helper()
	locktest.RequireRWGone(c, c.Server, c.Client, locktest.FaultKey)
	testkit.Eventually(c, testkit.Patience, func() bool { return locktest.IsIdle(c.Client, locktest.FaultKey) },
		"nothing is remembered")
	left, err := redis.Int64(c.Server.Do(c, "PTTL", c.Key+script.NoticeSuffix), nil)
	require.NoError(c, err)
	require.NotEqual(c, int64(-1), left, "the reason has no expiry")
	require.LessOrEqual(c, left, locktest.FaultLease.Milliseconds())
}
