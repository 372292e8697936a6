package etcdlock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
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
	s := &session{sessions: l.sessions, ttl: time.Minute, ctx: context.Background(), users: 1}
	for n := range 250 {
		s.noteCancelled(strconv.Itoa(n))
		s.cancelled[n].at = time.Now().Add(-cancelStay)
	}
	s.noteCancelled("young")
	for n, err := range []error{nil, errors.New("no answer"), nil, nil, nil} {
		server.err = err
		keeper{l.sessions, s}.forgetCancelled()
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

// A server may allow fewer operations a transaction than one request has. Then
// requests get smaller until it accepts them.
func TestForgetCancelledInSmallerRequestsOnServer(t *testing.T) {
	client := strictServer(t, 12)
	l, err := NewLocker(client, WithTTL(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	ctx := context.Background()
	h, err := l.TryLock(ctx, "key")
	if err != nil {
		t.Fatal(err)
	}
	s := h.(*level).grant.session
	const all = 50
	for n := range all {
		key := l.cancelKey(strconv.Itoa(n))
		if _, err := client.Put(ctx, key, "", clientv3.WithLease(s.id)); err != nil {
			t.Fatal(err)
		}
		s.noteCancelled(key)
		s.cancelled[n].at = time.Now().Add(-cancelStay)
	}
	const requests = 2 + 5 // of 50 and 25, which are refused; then of 12 four times, and of 2
	for range requests {
		keeper{l.sessions, s}.forgetCancelled()
	}
	resp, err := client.Get(ctx, l.cancelKey(""), clientv3.WithPrefix(), clientv3.WithCountOnly())
	if err != nil || resp.Count != 0 || len(s.cancelled) != 0 {
		t.Errorf("%d keys are left, %d of them known: %v", resp.Count, len(s.cancelled), err)
	}
}

// strictServer returns a client of a server that allows so many operations a
// transaction.
func strictServer(t *testing.T, ops int) *clientv3.Client {
	t.Helper()
	var p serverProcess
	p.start(fmt.Sprintf(`{"MaxTxnOps": %d}`, ops))
	t.Cleanup(p.stop)
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{p.address}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	tooMany := slices.Repeat([]clientv3.Op{clientv3.OpGet("key")}, ops+1)
	if _, err := client.Txn(context.Background()).Then(tooMany...).Commit(); !errors.Is(err, rpctypes.ErrTooManyOps) {
		t.Fatalf("%d operations: %v", len(tooMany), err)
	}
	return client
}

// Only a refusal for the size makes requests smaller.
func TestIsTooLarge(t *testing.T) {
	for err, want := range map[error]bool{
		rpctypes.ErrTooManyOps: true, rpctypes.ErrGRPCTooManyOps: true, rpctypes.ErrRequestTooLarge: true,
		rpctypes.ErrGRPCRequestTooLarge: true,
		status.Error(codes.ResourceExhausted, "trying to send message larger than max (3 vs. 2)"): true,
		rpctypes.ErrNoSpace: false, rpctypes.ErrGRPCRequestTooManyRequests: false, rpctypes.ErrNoLeader: false,
		context.DeadlineExceeded: false,
	} {
		if isTooLarge(err) != want {
			t.Errorf("%v: %v", err, !want)
		}
	}
}
