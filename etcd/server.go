package etcdlock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/status"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/goroutines"
)

// server is etcd as one Locker uses it: the client, the names of the keys, how
// long requests may take, and the goroutines that send them. No field changes
// after NewLocker.
//
// The Locker has the client behind two pointers. If a copy of a Locker is
// printed, fmt follows the first pointer, and the client has a password.
type server struct {
	keys
	client *clientv3.Client
	config config
	logger *slog.Logger
	life   context.Context // cancelled when the Locker is closed
	end    context.CancelCauseFunc
	tasks  goroutines.Group
	pace   *pace     // of requests
	old    sync.Once // logs that a server is too old
}

func newServer(client *clientv3.Client, c config) *server {
	s := &server{client: client, config: c, logger: c.logger}
	s.prefix, s.id, s.process = c.prefix, newID(), process()
	s.pace = newPace(min(c.ttl/3, maxRecheck))
	s.life, s.end = context.WithCancelCause(context.Background())
	return s
}

const (
	maxRecheck  = 30 * time.Second
	nearLimit   = time.Second            // how long Close waits for a server that is near
	reasonLimit = 100 * time.Millisecond // for a server that answers again meanwhile
)

// limit returns how long one request may take: a third of the TTL at most.
func (s *server) limit() time.Duration { return s.pace.limit() }

// revokeLimit returns how long Close waits for the server. It is longer if the
// server is far away.
func (s *server) revokeLimit() time.Duration {
	return min(s.limit(), max(nearLimit, s.pace.times(4)))
}

// recheck returns how long a wait relies on its watches before it checks for
// itself: a connection may be dead without a notice. A long TTL is no reason to
// wait longer for a free lock.
func (s *server) recheck() time.Duration { return 2 * min(s.config.ttl, maxRecheck/2) }

// closed returns why the Locker is closed, or nil.
func (s *server) closed() error { return context.Cause(s.life) }

// detached returns a context with the values of ctx. It is cancelled when the
// Locker is closed, or after limit.
func (s *server) detached(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	ends, cancel := context.WithTimeout(s.life, limit)
	return detached{ends, ctx}, cancel
}

// explain is the function of that name. If a request was not answered because
// no server can be reached, it returns why.
func (s *server) explain(err error) error {
	if err = explain(err); err == errTimeout { //nolint:errorlint // our own
		return cmp.Or(s.unreachable(), err)
	}
	return err
}

// explainOf is explain for a request for the keys of a lock. etcd does not say
// which key the user may not use, so the error names all of them.
func (s *server) explainOf(name string, err error) error {
	if !errors.Is(rpctypes.Error(err), rpctypes.ErrPermissionDenied) {
		return s.explain(err)
	}
	return fmt.Errorf("%w: the user needs to read and write all keys that begin with %q or %q: %w",
		relock.ErrDenied, s.folder(name), s.cancelKey(""), err)
}

// found returns the first key that the n-th read of a Txn has found, or nil.
func found(resp *clientv3.TxnResponse, n int) *mvccpb.KeyValue {
	if keys := resp.Responses[n].GetResponseRange().Kvs; len(keys) > 0 {
		return keys[0]
	}
	return nil
}

// unreachable returns why no server can be reached, or nil if one may be.
// Package clientv3 repeats requests until their limit, and returns only that
// the limit has passed. A request that it does not repeat gets the reason from
// the connection immediately.
func (s *server) unreachable() error {
	conn := s.client.ActiveConnection()
	if conn == nil || conn.GetState() != connectivity.TransientFailure {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), reasonLimit)
	defer cancel()
	_, err := etcdserverpb.NewMaintenanceClient(conn).Status(ctx, &etcdserverpb.StatusRequest{})
	if status.Code(err) != codes.Unavailable {
		return nil
	}
	return passing{fmt.Errorf("no server can be reached: %s", status.Convert(err).Message())}
}

// warnOfOldServers logs once that a server lets a deposed leader answer
// renewals. Before 3.5.13, a hold may then be considered valid after its lease
// has ended.
func (s *server) warnOfOldServers() {
	conn := s.client.ActiveConnection()
	if conn == nil {
		return
	}
	ctx, cancel := context.WithTimeout(s.life, s.limit())
	defer cancel()
	resp, err := etcdserverpb.NewMaintenanceClient(conn).Status(ctx, &etcdserverpb.StatusRequest{})
	if err != nil {
		s.logger.Debug("relock: version of the server unknown", "reason", err.Error())
		return
	}
	if isOld(resp.Version) {
		s.old.Do(func() {
			s.logger.Warn("relock: etcd before 3.5.13 lets a deposed leader answer renewals: update it", "version", resp.Version)
		})
	}
}

func isOld(version string) bool {
	var v [3]int
	n, _ := fmt.Sscanf(version, "%d.%d.%d", &v[0], &v[1], &v[2])
	return n == len(v) && slices.Compare(v[:], []int{3, 5, 13}) < 0
}
