package etcdlock

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/relock-go/relock"
)

// A session without holds ends if claims have another one with room. If they
// have none, the next claim would need a new lease.
func TestSpareLeaseStaysIfOthersAreFull(t *testing.T) {
	l, err := NewLocker(strictServer(t, 128), WithTTL(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	holds := map[*session][]relock.Hold{}
	for n := range 2 * maxKeys {
		h, err := l.TryLock(context.Background(), strconv.Itoa(n))
		if err != nil {
			t.Fatal(err)
		}
		s := h.(*level).grant.session
		holds[s] = append(holds[s], h)
	}
	full := l.sessions.current
	var spare *session
	for s := range holds {
		if s != full {
			spare = s
		}
	}
	if len(holds) != 2 || spare == nil {
		t.Fatalf("%d sessions", len(holds))
	}
	unlock := func(h relock.Hold) {
		if err := h.Unlock(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	for _, h := range holds[spare] {
		unlock(h)
	}
	keeper{l.sessions, spare}.endIfSpare()
	if err := spare.check(); err != nil {
		t.Errorf("it has ended, and the other one is full: %v", err)
	}
	unlock(holds[full][0])
	keeper{l.sessions, spare}.endIfSpare()
	if spare.check() == nil {
		t.Error("it has not ended, and the other one has room")
	}
}
