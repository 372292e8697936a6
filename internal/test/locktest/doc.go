// Package locktest has what tests of several packages do with clients and
// locks. Its files, by what a test needs:
//
//   - clients.go, locks.go: a client of a test with its pool, and a lock of any
//     kind
//   - logs.go, observers.go: what a client logged, and what its observer got
//   - checks.go: what a server has of a lock, and that nothing is left
//   - stored.go: what a server has of a key, and the entries of a read/write
//     lock
//   - conform.go, conform_servers.go: the conformance suite with the kinds of
//     lock of the root package, at servers of any kind
//   - closing.go: a client that is closed
//   - permissions.go: users with the permissions that the docs list
//   - queue.go, waiting.go, queue_checks.go: a lock with clients that wait for
//     it, in each mode; their calls, and its queue
//   - redlock.go, redlock_waits.go: the servers of a RedLock, which have been
//     up for long enough; its clients; their waits
//   - replicas.go: a master and its replica
//   - sentinels.go, topology.go, cluster.go, routes.go, directory.go: clients
//     of several servers, and where their requests go
//   - load.go, failover.go, failover_load.go, overlaps.go: locks under load,
//     masters that fail meanwhile, and holds that are valid together
//   - cell.go, cell_validity.go, variants.go: one operation of a client behind
//     a proxy that loses, delays or repeats its messages; meanwhile the
//     validity of its hold is compared with the server
//   - alarm.go, promise.go: what has to happen in time
//   - candidate_linux.go, election_linux.go, terms_linux.go: processes that
//     campaign, and a test that ends their terms
//   - parallel.go: subtests that wait together, and TestMain
//   - inside.go: what is below the public API
//
// [Engine] and [Level] lead to what the public API does not show. They have
// what the engine has for its users. What else a package has inside is seen by
// its own tests, through its export_test.go.
package locktest
