package etcdlock

import (
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/relock-go/relock"
)

// Cmp is the comparison that is true as long as etcd has the hold. In the If of
// a transaction through the Locker's client it makes sure that nothing is
// written by a holder that has lost its lock: what a fencing token does
// elsewhere, without one.
//
// A hold that is not a [Locker]'s is an error that matches [relock.ErrInvalid].
func Cmp(hold relock.Hold) (clientv3.Cmp, error) {
	h, ok := hold.(*level)
	if !ok || h == nil {
		return clientv3.Cmp{}, wrap("cmp", "", fmt.Errorf("%w: hold: is not one of etcdlock", relock.ErrInvalid))
	}
	return clientv3.Compare(clientv3.CreateRevision(h.grant.key), "=", h.grant.rev), nil
}
