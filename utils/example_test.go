package utils_test

import (
	"fmt"
	"os"

	"github.com/relock-go/relock/utils"
)

func ExampleNewID() {
	id, err := utils.NewID()
	fmt.Println(len(id), err)
	// Output: 36 <nil>
}

func ExampleGoroutineID() {
	own, other := utils.GoroutineID(), make(chan int64)
	go func() { other <- utils.GoroutineID() }()
	fmt.Println(own == utils.GoroutineID(), own == <-other)
	// Output: true false
}

func ExampleProcess() {
	_, pid := utils.Process()
	fmt.Println(pid == os.Getpid())
	// Output: true
}
