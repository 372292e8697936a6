// Package etcdlock provides relock's locks on etcd: fair and unfair ones with
// fencing tokens, behind the interface [relock.Locker].
//
//	client, err := clientv3.New(clientv3.Config{
//		Endpoints:            []string{"127.0.0.1:2379"},
//		DialKeepAliveTime:    10 * time.Second,
//		DialKeepAliveTimeout: 3 * time.Second,
//	})
//	...
//	locker, err := etcdlock.NewLocker(client, etcdlock.WithFair())
//	...
//	defer locker.Close()
//
//	err = relock.Do(ctx, locker, "orders/42", func(ctx context.Context) error {
//		return pay(ctx) // ctx is cancelled when the lock is lost
//	})
//
// # Fair and unfair
//
// An unfair lock, the default, is one key that a transaction makes when it is
// absent. Goroutines that wait with one Locker do so in a line in memory; only
// the first of them watches the key. A fair one ([WithFair]) is a folder in
// which each call has its own key; the oldest is the hold, and each of the
// others watches the one before it. Neither wakes more than one call of each
// process when a lock is released.
//
// # Validity
//
// The holds of a Locker share leases, up to 128 keys each, which it renews each
// third of the TTL. A hold is valid until the time before the last renewal that
// was answered, plus the TTL, less 1 % and 2 ms: etcd cannot give the lock away
// before. A timer enforces that without asking anybody; [relock.Hold.Err] and
// the hold's context report the end. Leases that end at the server, and keys
// that somebody deletes, are found by the next renewal. A machine that was
// suspended has lost its holds immediately, on Linux; within 250 ms if the wall
// clock was set back meanwhile. Servers older than 3.5.13 let a leader that was
// deposed answer renewals; a warning is logged.
//
// Fence is the create revision of the hold's key: it rises from hold to hold of
// a lock, and with unfair locks over all of the cluster (the key of a fair one
// is made when the call begins to wait). A snapshot that is restored without
// --bump-revision takes revisions back, and tokens with them. Writes to the
// same etcd need no token: put [Cmp] into their transaction.
//
// # Re-entry
//
// A call whose context carries a live hold of the same Locker and name goes one
// level deeper, as does one whose context names the owner of one
// ([relock.ContextWithOwner]). Levels are counted in memory. Other calls are
// strangers, also those of the same goroutine. If one waits for a lock that its
// Locker holds, its error names that hold, and after one TTL so does the log.
//
// # Failures
//
// Requests that are lost, late or doubled leave nothing behind: each claim is
// named once, and one that is given up without an answer is kept out by a key
// under the same lease, see docs/internals/etcd.md. A blocking Lock retries
// temporary errors; [relock.IsRetryableErr] reports which they are. If no
// server can be reached, the error has the reason of the connection. The log of
// [WithLogger] has it after a second, then every 30 s, and a line once a server
// answers.
//
// Give the client a DialKeepAliveTime. A member that is silent without closing
// its connections otherwise costs each request that the client sends to it a
// third of the TTL, 3s at most.
package etcdlock
