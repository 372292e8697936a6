package etcdlock

import (
	"context"
	"errors"
	"io"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
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
