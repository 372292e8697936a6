package goredis_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/goredis"
	"github.com/relock-go/relock/internal/test/redistest"
)

// A lock uses the server of a go-redis client that the program already has.
func ExampleNewClient() {
	server, stopServer, err := redistest.Launch() // yours is at localhost:6379
	if err != nil {
		fmt.Println(err)
		return
	}
	defer stopServer()
	rdb := redis.NewClient(&redis.Options{Network: server.Network, Addr: server.Address})
	defer rdb.Close()
	client, err := goredis.NewClient(rdb)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()

	lock := relock.NewRedisLock("reports", client, relock.WithBlock())
	err = lock.Do(context.Background(), func(ctx context.Context) error {
		return rdb.Set(ctx, "report", "done", 0).Err()
	})
	fmt.Println(err, rdb.Get(context.Background(), "report").Val())
	// Output: <nil> done
}

// With Sentinels a lock follows the master. The options are those of the
// program's client of go-redis.
func ExampleNewClientSentinel() {
	options := &redis.FailoverOptions{
		MasterName: "main", SentinelAddrs: []string{"10.0.0.1:26379", "10.0.0.2:26379", "10.0.0.3:26379"},
	}
	rdb := redis.NewFailoverClient(options)
	defer rdb.Close()
	client, err := goredis.NewClientSentinel(options)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()
	// Both replicas, so that whichever is promoted has the lock.
	lock := relock.NewRedisLock("reports", client, relock.WithBlock(), relock.WithReplicas(2, time.Second))
	fmt.Println("made without a network call:", lock.Validate())
	// Output: made without a network call: <nil>
}

// Over a client of a Cluster a lock is at the master of its slot, and follows
// it.
func ExampleNewClient_cluster() {
	rdb := redis.NewClusterClient(&redis.ClusterOptions{
		Addrs: []string{"10.0.0.1:6379", "10.0.0.2:6379", "10.0.0.3:6379"},
	})
	defer rdb.Close()
	client, err := goredis.NewClient(rdb)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()
	fmt.Println("made without a network call")
	// Output: made without a network call
}

// A Ring is refused, because two programs can disagree about a dead shard.
func ExampleNewClient_ring() {
	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"one": "10.0.0.1:6379"}})
	defer ring.Close()
	_, err := goredis.NewClient(ring)
	fmt.Println(errors.Is(err, relock.ErrInvalid))
	// Output: true
}
