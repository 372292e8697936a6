package relock_test

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"log"

	"github.com/relock-go/relock"
)

// Servers that know nothing of each other share the keys. Each process chooses
// the server of a key by the same function and the same list.
func Example_independentServers() {
	servers := map[string]*relock.Client{}
	for _, name := range []string{"locks-1:6379", "locks-2:6379", "locks-3:6379"} {
		client, err := relock.NewClient("tcp", name, "") // connects at the first request
		if err != nil {
			log.Fatal(err)
		}
		defer client.Close()
		servers[name] = client
	}

	clientFor := func(key string) (chosen *relock.Client) {
		var highest uint64
		for name, client := range servers {
			sum := sha256.Sum256([]byte(name + " " + key))
			if weight := binary.BigEndian.Uint64(sum[:]); chosen == nil || weight > highest {
				chosen, highest = client, weight
			}
		}
		return chosen
	}
	lock := relock.NewRedisLock("orders/42", clientFor("orders/42"))

	fmt.Println(lock.Validate())
	keys := map[*relock.Client]int{}
	for i := range 3000 {
		keys[clientFor(fmt.Sprint("orders/", i))]++
	}
	for _, name := range []string{"locks-1:6379", "locks-2:6379", "locks-3:6379"} {
		fmt.Println(name, keys[servers[name]])
	}
	// Output:
	// <nil>
	// locks-1:6379 976
	// locks-2:6379 1023
	// locks-3:6379 1001
}
