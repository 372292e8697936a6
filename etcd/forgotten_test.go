package etcdlock

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
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
	if n := strings.Count(log.String(), "key=old kind=etcd held=1h40m0s"); n != 1 || strings.Contains(log.String(), "younger") {
		t.Errorf("logged %d times: %s", n, log.String())
	}
}
