package etcdlock

import (
	"context"
	"fmt"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
)

// warnOfOldServers logs once that a server lets a deposed leader answer
// renewals. Before 3.5.13, a hold may then be considered valid after its lease
// has ended.
func (l *Locker) warnOfOldServers() {
	conn := l.client.ActiveConnection()
	if conn == nil {
		return
	}
	ctx, cancel := context.WithTimeout(l.life, l.limit())
	defer cancel()
	resp, err := etcdserverpb.NewMaintenanceClient(conn).Status(ctx, &etcdserverpb.StatusRequest{})
	if err != nil {
		l.logger.Debug("relock: version of the server unknown", "reason", err.Error())
		return
	}
	if isOld(resp.Version) {
		l.old.Do(func() {
			l.logger.Warn("relock: etcd before 3.5.13 lets a deposed leader answer renewals: update it", "version", resp.Version)
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
