package etcdlock_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/relock-go/relock"
	etcdlock "github.com/relock-go/relock/etcd"
)

// exampleClient is one of a server that the examples share.
func exampleClient() *clientv3.Client {
	client, err := clientv3.New(clientv3.Config{
		Endpoints:            []string{etcdlock.ServerAddress()},
		DialKeepAliveTime:    10 * time.Second, // leave a member that is silent
		DialKeepAliveTimeout: 3 * time.Second,
	})
	if err != nil {
		panic(err)
	}
	return client
}

// Do is the usual way: the lock is held while the function runs, and released
// after it.
func Example() {
	client := exampleClient()
	defer client.Close()
	locker, err := etcdlock.NewLocker(client)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer locker.Close()
	err = relock.Do(context.Background(), locker, "orders/42", func(ctx context.Context) error {
		fmt.Println("alone:", ctx.Err() == nil)
		return nil
	})
	fmt.Println(err)
	// Output:
	// alone: true
	// <nil>
}

func ExampleNewLocker() {
	client := exampleClient()
	defer client.Close()
	locker, err := etcdlock.NewLocker(client,
		etcdlock.WithFair(),
		etcdlock.WithTTL(15*time.Second),
		etcdlock.WithPrefix("myapp/"),
		etcdlock.WithLogger(slog.New(slog.NewTextHandler(os.Stderr, nil))),
	)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer locker.Close()
	hold, err := locker.TryLock(context.Background(), "report")
	fmt.Println(hold.Key(), err)
	_, err = locker.TryLock(context.Background(), "report")
	fmt.Println(errors.Is(err, relock.ErrLockAcquiredByOthers))
	again, err := locker.TryLock(hold.Context(), "report") // the holder's own
	fmt.Println(again.Fence() == hold.Fence(), err)
	fmt.Println(again.Unlock(context.Background()), hold.Unlock(context.Background()))
	// Output:
	// report <nil>
	// true
	// true <nil>
	// <nil> <nil>
}

// A write in etcd that only the holder can make needs no fencing token.
func ExampleCmp() {
	client := exampleClient()
	defer client.Close()
	locker, err := etcdlock.NewLocker(client)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer locker.Close()
	ctx := context.Background()
	hold, err := locker.Lock(ctx, "ledger")
	if err != nil {
		fmt.Println(err)
		return
	}
	owned, err := etcdlock.Cmp(hold)
	if err != nil {
		fmt.Println(err)
		return
	}
	write := func() bool {
		resp, err := client.Txn(ctx).If(owned).Then(clientv3.OpPut("ledger/balance", "100")).Commit()
		return err == nil && resp.Succeeded
	}
	fmt.Println("while it is held:", write())
	_ = hold.Unlock(ctx)
	fmt.Println("afterwards:", write())
	// Output:
	// while it is held: true
	// afterwards: false
}

// Hooks as for the locks of Redis, for metrics and traces.
func ExampleWithObserver() {
	client := exampleClient()
	defer client.Close()
	observer := relock.Observer{LockDone: func(_ context.Context, e relock.LockDone) {
		fmt.Println(e.Kind, "lock", e.Key, "error:", e.Err)
	}}
	locker, err := etcdlock.NewLocker(client, etcdlock.WithObserver(observer))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer locker.Close()
	hold, err := locker.TryLock(context.Background(), "invoices")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(hold.Unlock(context.Background()))
	// Output:
	// etcd lock invoices error: <nil>
	// <nil>
}
