package etcdlock

import (
	"context"
	"testing"
	"time"

	"github.com/relock-go/relock"
)

// A hold that is lost before its call returns is reported once the call ends.
func TestHoldThatIsLostOnTheWayBack(t *testing.T) {
	t.Parallel()
	var ends []relock.HoldDone
	note := func(_ context.Context, e relock.HoldDone) { ends = append(ends, e) }
	b := newBed(t, time.Hour, WithObserver(relock.Observer{HoldDone: note}))
	h, _, err := b.acquire(context.Background(), "key", true)
	if err != nil {
		t.Fatal(err)
	}
	b.sleep(time.Minute)
	isLost(t, h.Err())
	if len(ends) > 0 {
		t.Fatal("notified before the call has ended")
	}
	h.report.Announce()
	if len(ends) != 1 || ends[0].End.Before(ends[0].Start) {
		t.Fatalf("notified of %+v", ends)
	}
	isLost(t, ends[0].Err)
	isLost(t, h.Unlock(context.Background()))
	if len(ends) != 1 {
		t.Error("notified once more")
	}
}

// Without an observer a hold has nothing that is kept for one.
func TestNoObserver(t *testing.T) {
	t.Parallel()
	h := newBed(t, time.Hour).get(t, "key")
	if h.report != nil {
		t.Error("something is kept")
	}
	if err := h.Unlock(context.Background()); err != nil {
		t.Error(err)
	}
}
