package etcdlock

import (
	"bytes"
	"context"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/relock-go/relock"
)

// A hold that is older than 100 leases is logged once.
func TestForgottenHoldIsLogged(t *testing.T) {
	var log bytes.Buffer
	l, err := NewLocker(clientv3.NewCtxClient(t.Context()), WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
	if err != nil {
		t.Fatal(err)
	}
	s := &session{sessions: l.sessions, ttl: time.Minute, grants: map[*grant]struct{}{}}
	for name, age := range map[string]time.Duration{"old": 100 * time.Minute, "younger": 99 * time.Minute} {
		s.grants[&grant{place: place{name: name}, began: time.Now().Add(-age)}] = struct{}{}
	}
	keeper{l.sessions, s}.reportOld()
	keeper{l.sessions, s}.reportOld()
	if n := strings.Count(log.String(), "key=old kind=etcd held=1h40m0s"); n != 1 ||
		strings.Contains(log.String(), "younger") {
		t.Errorf("logged %d times: %s", n, log.String())
	}
}

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
