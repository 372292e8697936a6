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

// reasonLimit is for a server that answers again meanwhile.
const reasonLimit = 100 * time.Millisecond

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
	var major, minor, patch int
	if n, _ := fmt.Sscanf(version, "%d.%d.%d", &major, &minor, &patch); n < 3 {
		return false
	}
	switch {
	case major != 3:
		return major < 3
	case minor != 5:
		return minor < 5
	}
	return patch < 13
}
