package etcdlock

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// deletions is a server that counts what the transactions delete.
type deletions struct {
	clientv3.KV
	sizes []int
	err   error
}

func (d *deletions) Do(_ context.Context, op clientv3.Op) (clientv3.OpResponse, error) {
	_, deletes, _ := op.Txn()
	d.sizes = append(d.sizes, len(deletes))
	return clientv3.OpResponse{}, d.err
}

// Deleting old keys takes one request per renewal, however many keys there are:
// all holds wait for that renewal. Keys that were not deleted are tried again,
// and young ones stay.
func TestForgetCancelledTakesOneRequest(t *testing.T) {
	server := &deletions{}
	client := clientv3.NewCtxClient(context.Background())
	client.KV = server
	l, err := NewLocker(client)
	if err != nil {
		t.Fatal(err)
	}
	s := &session{locker: l, ttl: time.Minute, ctx: context.Background()}
	for n := range 250 {
		s.noteCancelled(strconv.Itoa(n))
		s.cancelled[n].at = time.Now().Add(-cancelStay)
	}
	s.noteCancelled("young")
	for n, err := range []error{nil, errors.New("no answer"), nil, nil, nil} {
		server.err = err
		s.forgetCancelled()
		if n < 4 && len(server.sizes) != n+1 {
			t.Fatalf("%d requests after %d renewals", len(server.sizes), n+1)
		}
	}
	want := []int{100, 100, 100, 50}
	if len(server.sizes) != len(want) {
		t.Fatalf("requests of %v deletions", server.sizes)
	}
	for n := range want {
		if server.sizes[n] != want[n] {
			t.Errorf("requests of %v deletions", server.sizes)
		}
	}
	if len(s.cancelled) != 1 || s.cancelled[0].key != "young" {
		t.Errorf("%d keys are left", len(s.cancelled))
	}
}
