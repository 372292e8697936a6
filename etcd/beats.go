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

// beats are the renewals of one lease, over one stream, each of which is answered before the next one is sent. What
// package clientv3 has does not do: KeepAlive hides when a renewal was sent, and KeepAliveOnce opens a stream for each,
// for which users with a password log in anew, and tries again without a pause while no server can be reached.
type beats struct {
	stream etcdserverpb.Lease_LeaseKeepAliveClient // nil while there is none
	cancel context.CancelFunc
}

// beat renews the lease once, and returns its TTL. ctx ends the beat, life the stream; so does a beat that was not
// answered. A stream whose token is no longer good costs a new one, no error.
func (b *beats) beat(ctx, life context.Context, client *clientv3.Client, id clientv3.LeaseID) (time.Duration, error) {
	conn := client.ActiveConnection()
	if conn == nil { // it talks to a server in this process
		resp, err := client.KeepAliveOnce(ctx, id)
		if err != nil {
			return 0, err
		}
		return time.Duration(resp.TTL) * time.Second, nil
	}
	old := b.stream != nil
	resp, err := b.once(ctx, life, conn, id)
	if old && isStaleToken(err) {
		resp, err = b.once(ctx, life, conn, id)
	}
	switch {
	case err != nil && ctx.Err() != nil: // it cut the stream, which tells so as if the client had been closed
		return 0, ctx.Err()
	case err != nil:
		return 0, rpctypes.Error(err)
	case resp.TTL <= 0:
		return 0, rpctypes.ErrLeaseNotFound
	}
	return time.Duration(resp.TTL) * time.Second, nil
}

func (b *beats) once(ctx, life context.Context, conn *grpc.ClientConn, id clientv3.LeaseID) (*etcdserverpb.LeaseKeepAliveResponse, error) {
	if b.stream == nil {
		life, b.cancel = context.WithCancel(life)
	}
	stop := context.AfterFunc(ctx, b.cancel)
	resp, err := b.ask(life, etcdserverpb.NewLeaseClient(conn), id)
	if !stop() || err != nil {
		b.close()
	}
	return resp, err
}

func (b *beats) ask(ctx context.Context, client etcdserverpb.LeaseClient, id clientv3.LeaseID) (*etcdserverpb.LeaseKeepAliveResponse, error) {
	if b.stream == nil {
		stream, err := client.LeaseKeepAlive(ctx)
		if err != nil {
			return nil, err
		}
		b.stream = stream
	}
	err := b.stream.Send(&etcdserverpb.LeaseKeepAliveRequest{ID: int64(id)})
	if err != nil && !errors.Is(err, io.EOF) { // Recv says why the stream has ended
		return nil, err
	}
	return b.stream.Recv()
}

// close ends the stream. The next beat opens another, perhaps to another server.
func (b *beats) close() {
	if b.cancel != nil {
		b.cancel()
	}
	b.stream, b.cancel = nil, nil
}
