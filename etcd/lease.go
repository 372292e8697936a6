package etcdlock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/relock-go/relock"
)

// keepAlive renews one lease over one stream. Each renewal is answered before
// the next one is sent. The methods of package clientv3 do not fit. KeepAlive
// hides when a renewal was sent. KeepAliveOnce opens a stream for each renewal,
// for which users with a password log in again. It also retries without a pause
// while no server can be reached.
type keepAlive struct {
	stream etcdserverpb.Lease_LeaseKeepAliveClient // nil if there is none
	cancel context.CancelFunc
}

// renew renews the lease once, and returns its TTL. ctx limits the renewal, and
// life the stream. A renewal that is not answered also ends the stream. If the
// token of the stream is no longer valid, renew retries on a new one. That is
// not an error.
func (k *keepAlive) renew(ctx, life context.Context, c *clientv3.Client, id clientv3.LeaseID) (time.Duration, error) {
	conn := c.ActiveConnection()
	if conn == nil { // the server is in this process
		resp, err := c.KeepAliveOnce(ctx, id)
		if err != nil {
			return 0, err
		}
		return time.Duration(resp.TTL) * time.Second, nil
	}
	old := k.stream != nil
	ttl, err := k.once(ctx, life, conn, id)
	if old && isStaleToken(err) {
		ttl, err = k.once(ctx, life, conn, id)
	}
	switch {
	case err != nil && ctx.Err() != nil:
		// ctx cut the stream, whose error looks as if the client had been
		// closed.
		return 0, ctx.Err()
	case err != nil:
		return 0, rpctypes.Error(err)
	case ttl <= 0:
		return 0, rpctypes.ErrLeaseNotFound
	}
	return time.Duration(ttl) * time.Second, nil
}

func (k *keepAlive) once(ctx, life context.Context, conn *grpc.ClientConn, id clientv3.LeaseID) (ttl int64, err error) {
	if k.stream == nil {
		life, k.cancel = context.WithCancel(life)
	}
	stop := context.AfterFunc(ctx, k.cancel)
	ttl, err = k.ask(life, etcdserverpb.NewLeaseClient(conn), id)
	if !stop() || err != nil {
		k.close()
	}
	return ttl, err
}

func (k *keepAlive) ask(ctx context.Context, c etcdserverpb.LeaseClient, id clientv3.LeaseID) (ttl int64, err error) {
	if k.stream == nil {
		stream, err := c.LeaseKeepAlive(ctx)
		if err != nil {
			return 0, err
		}
		k.stream = stream
	}
	err = k.stream.Send(&etcdserverpb.LeaseKeepAliveRequest{ID: int64(id)})
	if err != nil && !errors.Is(err, io.EOF) { // io.EOF: Recv returns why the stream ended
		return 0, err
	}
	resp, err := k.stream.Recv()
	return resp.GetTTL(), err
}

// close ends the stream. The next renewal opens another one, perhaps to another
// server.
func (k *keepAlive) close() {
	if k.cancel != nil {
		k.cancel()
	}
	k.stream, k.cancel = nil, nil
}

// revokeOnce sends one request. A lease that has ended is revoked.
func (s *server) revokeOnce(ctx context.Context, id clientv3.LeaseID, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	sent := time.Now()
	_, err := s.client.Revoke(ctx, id)
	s.pace.note(sent, limit, err)
	if isNoLease(err) {
		return nil
	}
	return s.explain(err)
}

// revokeAll revokes all leases together, for Close.
func (s *server) revokeAll(leases []clientv3.LeaseID) error {
	if why := s.closed(); why == errClientClosed && len(leases) > 0 { //nolint:errorlint // ours
		return fmt.Errorf("%w: %w", relock.ErrUnconfirmed, why)
	}
	limit := s.revokeLimit()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	failed := make([]error, len(leases))
	var group sync.WaitGroup
	for i, id := range leases {
		group.Go(func() { failed[i] = s.revokeIn(ctx, id, s.pace.try(limit)) })
	}
	group.Wait()
	if err := cmp.Or(failed...); err != nil {
		return fmt.Errorf("%w: %w", relock.ErrUnconfirmed, err)
	}
	return nil
}

// revokeIn tries until ctx is cancelled. The first attempt takes at most try,
// because the next one may meet a member that answers. That one may take all
// the time that is left.
func (s *server) revokeIn(ctx context.Context, id clientv3.LeaseID, try time.Duration) error {
	var p pauses
	err := s.revokeOnce(ctx, id, try)
	for relock.IsRetryableErr(err) && sleep(ctx, p.next()) {
		err = s.revokeOnce(ctx, id, s.limit())
	}
	return err
}

// sendBack revokes a lease that was granted too late, because it may be a long
// one. It tries once, even after Close.
func (s *server) sendBack(id clientv3.LeaseID) {
	if err := s.revokeOnce(context.Background(), id, s.revokeLimit()); err != nil {
		s.logger.Debug("relock: lease not revoked", "reason", err.Error())
	}
}
