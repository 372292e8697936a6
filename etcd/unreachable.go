package etcdlock

import (
	"context"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/status"
)

// unreachable returns why no server can be reached, or nil if one may be.
// Package clientv3 repeats requests until their limit, and returns only that
// the limit has passed. A request that it does not repeat gets the reason from
// the connection immediately.
func (l *Locker) unreachable() error {
	conn := l.client.ActiveConnection()
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

// reasonLimit is for a server that answers again meanwhile.
const reasonLimit = 100 * time.Millisecond
