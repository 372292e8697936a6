package relock_test

import (
	"context"
	"fmt"
	"runtime/pprof"

	"github.com/relock-go/relock"
)

// How many locks the process has, and from where.
func ExampleWithHoldProfile() {
	client := newClient(relock.WithHoldProfile())
	defer client.Close()

	profile := pprof.Lookup("relock") // at /debug/pprof/relock of net/http/pprof
	err := relock.NewRedisLock("report", client).Do(context.Background(), func(context.Context) error {
		fmt.Println(profile.Count())
		return nil
	})
	fmt.Println(profile.Count(), err)
	// Output:
	// 1
	// 0 <nil>
}
