// Package goredis makes a [relock.Client] from a client of go-redis, or from
// its options. It uses their addresses, TLS, dialer and credentials, over
// separate connections.
//
//	rdb := redis.NewClient(&redis.Options{Addr: "localhost:6379"})
//	client, err := goredis.NewClient(rdb)
//	if err != nil {
//		return err
//	}
//	defer client.Close()
//	lock := relock.NewRedisLock("reports", client, relock.WithBlock())
//
// A client of a Cluster is used likewise. For Sentinels, [NewClientSentinel]
// takes the options of redis.NewFailoverClient.
//
// What belongs to a connection of go-redis does not apply: its pool, hooks,
// limiter, retries, timeouts, OnConnect, client name and client-side cache.
package goredis
