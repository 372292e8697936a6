package etcdlock

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/suspend"
)

// bed is a Locker on a machine that is suspended when the test asks for it. Its
// server grants everything, since the Locker only depends on its clocks, which
// a server cannot see.
type bed struct {
	clientv3.KV
	clientv3.Lease
	*Locker
	slept    atomic.Int64
	still    atomic.Bool // the wall clock does not show what the machine sleeps
	granted  atomic.Int64
	revoked  atomic.Int64
	revision atomic.Int64
	during   func(request string) // runs before a request is answered
}

func newBed(t *testing.T, ttl time.Duration, opts ...Option) *bed {
	t.Helper()
	b := &bed{during: func(string) {}}
	client := clientv3.NewCtxClient(context.Background())
	client.KV, client.Lease = b, b
	l, err := NewLocker(client, append(opts, WithTTL(ttl))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	slept := func() time.Duration { return time.Duration(b.slept.Load()) }
	clocks := suspend.Clocks{All: slept, Split: b.split, Pause: suspend.Pause}
	l.sessions.monitor = suspend.NewMonitor(clocks, l.logger, l.sessions.suspendedLocked, l.sessions.monitorSuspend)
	b.Locker = l
	return b
}

// Close is the Locker's, not that of the server, which has none.
func (b *bed) Close() error { return b.Locker.Close() }

func (b *bed) sleep(d time.Duration) { b.slept.Add(int64(d)) }

func (b *bed) split(time.Time) (wall, awake time.Duration) {
	if b.still.Load() {
		return 0, 0
	}
	return time.Duration(b.slept.Load()), 0
}

func (b *bed) Grant(_ context.Context, ttl int64) (*clientv3.LeaseGrantResponse, error) {
	b.during("grant")
	return &clientv3.LeaseGrantResponse{ID: clientv3.LeaseID(b.granted.Add(1)), TTL: ttl}, nil
}

func (b *bed) KeepAliveOnce(_ context.Context, id clientv3.LeaseID) (*clientv3.LeaseKeepAliveResponse, error) {
	b.during("renewal")
	return &clientv3.LeaseKeepAliveResponse{ID: id, TTL: int64(b.config.ttl / time.Second)}, nil
}

func (b *bed) TimeToLive(
	context.Context, clientv3.LeaseID, ...clientv3.LeaseOption,
) (*clientv3.LeaseTimeToLiveResponse, error) {
	return nil, errors.New("not known")
}

func (b *bed) Revoke(context.Context, clientv3.LeaseID) (*clientv3.LeaseRevokeResponse, error) {
	b.revoked.Add(1)
	return &clientv3.LeaseRevokeResponse{}, nil
}

func (b *bed) Txn(context.Context) clientv3.Txn { return yes{b} }

// yes is a transaction that succeeds.
type yes struct{ b *bed }

func (y yes) If(...clientv3.Cmp) clientv3.Txn  { return y }
func (y yes) Then(...clientv3.Op) clientv3.Txn { return y }
func (y yes) Else(...clientv3.Op) clientv3.Txn { return y }
func (y yes) Commit() (*clientv3.TxnResponse, error) {
	y.b.during("txn")
	return &clientv3.TxnResponse{Succeeded: true, Header: &etcdserverpb.ResponseHeader{Revision: y.b.revision.Add(1)}}, nil
}

func (b *bed) get(t *testing.T, key string) *level {
	t.Helper()
	h, err := b.TryLock(context.Background(), key)
	if err != nil {
		t.Fatal(err)
	}
	return h.(*level)
}

func isLost(t *testing.T, err error) {
	t.Helper()
	if !errors.Is(err, relock.ErrLockLost) {
		t.Errorf("%v is no loss", err)
	}
}

// noLoss is how long a machine may be suspended without a loss.
const noLoss = 250 * time.Millisecond

// The first call after a suspension reports the loss, and no later call reports
// otherwise. A shorter pause is no suspension.
func TestSuspendedMachineHasLostItsHolds(t *testing.T) {
	for name, ask := range map[string]func(h *level) error{
		"Err": (*level).Err,
		"ValidUntil": func(h *level) error {
			if h.ValidUntil().IsZero() {
				return relock.ErrLockLost
			}
			return nil
		},
		"Context":  func(h *level) error { return context.Cause(h.Context()) },
		"Unlock":   func(h *level) error { return h.Unlock(context.Background()) },
		"Extend":   func(h *level) error { return h.Extend(context.Background(), time.Second) },
		"re-entry": func(h *level) error { _, err := reenter(h); return err },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBed(t, time.Hour)
			asked, other, long := b.get(t, "asked"), b.get(t, "other"), b.get(t, "long")
			if err := long.Extend(context.Background(), 24*time.Hour); err != nil { // has a separate lease
				t.Fatal(err)
			}
			ends := other.Context().Done()
			b.sleep(noLoss)
			for _, h := range []*level{asked, other, long} {
				if err := h.Err(); err != nil {
					t.Fatalf("%v is no sleep: %v", noLoss, err)
				}
			}
			b.sleep(10*time.Millisecond + 1) // further than the clocks may drift apart without a check
			isLost(t, ask(asked))
			b.sessions.mu.Lock() // no call has checked
			isLost(t, other.ends.Err())
			isLost(t, long.ends.Err())
			b.sessions.mu.Unlock()
			select {
			case <-ends:
			default:
				t.Error("the context goes on")
			}
			isLost(t, other.Unlock(context.Background()))
			isLost(t, long.Err())

			again := b.get(t, "asked")
			if err := errors.Join(again.Err(), again.Unlock(context.Background())); err != nil {
				t.Error(err)
			}
			awaitTrue(t, "both leases are revoked", func() bool { return b.revoked.Load() == 2 })
		})
	}
}

// reenter makes a call whose context carries h.
func reenter(h *level) (*level, error) {
	ctx := h.ends.Made()
	if ctx == nil {
		ctx = h.Context()
	}
	inner, _, err := h.grant.holders.reenter(context.WithoutCancel(ctx), h.grant.name)
	return inner, err
}

func awaitTrue(t *testing.T, what string, ok func() bool) {
	t.Helper()
	const rounds = 10_000 // a machine that stands still does not count
	for n := 0; !ok(); n++ {
		if n == rounds {
			t.Fatal("not in time: " + what)
		}
		time.Sleep(time.Millisecond)
	}
}

// No call is needed: the context of a hold is cancelled even if the wall clock
// shows no suspension.
func TestSuspendIsNoticedByItself(t *testing.T) {
	t.Parallel()
	b := newBed(t, time.Hour)
	for _, still := range []bool{false, true} {
		b.still.Store(still)
		h := b.get(t, "key")
		ctx := h.Context()
		b.sleep(time.Hour)
		select {
		case <-ctx.Done():
			isLost(t, context.Cause(ctx))
		case <-time.After(30 * time.Second):
			t.Fatal("was not noticed")
		}
		isLost(t, h.Unlock(context.Background()))
	}
}

// A lease that was granted during a suspension is not valid. Neither is a lock
// or a renewal.
func TestAnswersOverASleep(t *testing.T) {
	t.Parallel()
	b := newBed(t, time.Hour)
	var sleepDuring atomic.Value
	b.during = func(request string) {
		if sleepDuring.CompareAndSwap(request, "") {
			b.sleep(time.Minute)
		}
	}
	sleepDuring.Store("grant")
	if _, err := b.TryLock(context.Background(), "key"); !errors.Is(err, errLate) || !relock.IsRetryableErr(err) {
		t.Errorf("a grant over a sleep: %v", err)
	}
	awaitTrue(t, "it is sent back", func() bool { return b.revoked.Load() == 1 })

	sleepDuring.Store("txn")
	h := b.get(t, "key") // tries once more, under another lease
	if err := h.Err(); err != nil || h.grant.session.id != 3 {
		t.Errorf("%v, lease %d", err, h.grant.session.id)
	}

	sleepDuring.Store("renewal")
	isLost(t, h.Extend(context.Background(), time.Minute))
	isLost(t, h.Err())
}

// A suspension while there was no lease loses no hold, and does not affect
// leases that are granted after it.
func TestSleepBeforeTheFirstLease(t *testing.T) {
	t.Parallel()
	b := newBed(t, time.Hour)
	b.sleep(time.Hour)
	if err := b.get(t, "key").Err(); err != nil || b.granted.Load() != 1 {
		t.Errorf("%v after %d grants", err, b.granted.Load())
	}
}

// Once one of many callers has seen the loss, no other sees a valid hold.
func TestSuspendIsLostForAllAtOnce(t *testing.T) {
	t.Parallel()
	b := newBed(t, time.Hour)
	var reported atomic.Bool
	var group sync.WaitGroup
	ready := make(chan struct{}, 8)
	for n := range 8 {
		h := b.get(t, string(rune('a'+n)))
		group.Go(func() {
			for first := true; ; first = false {
				before := reported.Load()
				err := h.Err()
				if first {
					ready <- struct{}{}
				}
				if err != nil {
					reported.Store(true)
					return
				}
				if before {
					t.Error("the hold goes on though another one is lost")
				}
			}
		})
	}
	for range 8 {
		<-ready
	}
	b.sleep(time.Minute)
	group.Wait()
}
