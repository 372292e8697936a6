// Command keeper holds many locks for a while, and prints the cost. Its process
// runs nothing else, and the tests build it without the race detector.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/relock-go/relock"
)

// figures are what keeper prints, as JSON.
type figures struct {
	Lost       int           // holds that did not stay
	Goroutines int           // more than before there was a client
	Heap       int64         // bytes for each lock, with its name, its object and its hold
	CPU        time.Duration // of the process while it holds them, renewals included
	Held       time.Duration // for how long
	Bare       time.Duration // of the process for one renewal of each lock by bare redigo
}

// Arguments: network, address, number of locks, lease in ms, length of the
// holds in ms.
func main() {
	f, err := keep(os.Args[1], os.Args[2], number(3), time.Duration(number(4))*time.Millisecond,
		time.Duration(number(5))*time.Millisecond)
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(f)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "keeper:", err)
		os.Exit(1)
	}
}

func number(i int) int {
	n, err := strconv.Atoi(os.Args[i])
	if err != nil {
		panic(err)
	}
	return n
}

func keep(network, address string, locks int, lease, length time.Duration) (f figures, err error) {
	goroutines := runtime.NumGoroutine()
	client, err := relock.NewClient(network, address, "", relock.WithWatchdog(lease))
	if err != nil {
		return f, err
	}
	if err := relock.NewRedisLock("first", client).Lock(context.Background()); err != nil {
		return f, err
	}
	holds := make([]relock.Hold, locks)
	first := locks / 10 // with all that a client needs once: connections and their buffers
	if err := acquire(client, holds, 0, first); err != nil {
		return f, err
	}
	before := heap()
	if err := acquire(client, holds, first, locks); err != nil {
		return f, err
	}
	f.Heap = (heap() - before) / int64(locks-first)
	f.Goroutines = runtime.NumGoroutine() - goroutines
	start, used := time.Now(), processTime()
	time.Sleep(length)
	f.Held, f.CPU = time.Since(start), processTime()-used
	f.Goroutines = max(f.Goroutines, runtime.NumGoroutine()-goroutines)
	for _, h := range holds {
		if h.Err() != nil {
			f.Lost++
		}
	}
	if err := client.Close(); err != nil {
		return f, err
	}
	f.Bare, err = bare(network, address, locks, lease)
	return f, err
}

// bare returns the CPU time for sending as many scripts as there are locks, in
// batches of 100 as the watchdog's, and reading their replies. It is the
// measure of a slow machine.
func bare(network, address string, locks int, lease time.Duration) (time.Duration, error) {
	conn, err := redis.Dial(network, address)
	if err != nil {
		return 0, err
	}
	defer conn.Close() //nolint:errcheck // it has served
	sha, err := redis.String(conn.Do("SCRIPT", "LOAD", "return 1"))
	if err != nil {
		return 0, err
	}
	const batch, rounds = 100, 4
	value := strings.Repeat("v", 100) // about as long as a lock's
	used := processTime()
	for i := 0; i < rounds*locks; i += batch {
		for n := range batch {
			if err := conn.Send("EVALSHA", sha, 1, "relock:{lock:"+strconv.Itoa(i+n)+"}", value,
				lease.Milliseconds()); err != nil {
				return 0, err
			}
		}
		if _, err := conn.Do(""); err != nil {
			return 0, err
		}
	}
	return (processTime() - used) / rounds, nil
}

// acquire takes the locks from one to another, a few at a time.
func acquire(client *relock.Client, holds []relock.Hold, from, to int) error {
	const goroutines = 32
	errs := make([]error, goroutines)
	var group sync.WaitGroup
	for g := range goroutines {
		group.Go(func() {
			for i := from + g; i < to; i += goroutines {
				if holds[i], errs[g] = relock.NewRedisLock("lock:"+
					strconv.Itoa(i), client).Acquire(context.Background()); errs[g] != nil {
					return
				}
			}
		})
	}
	group.Wait()
	return errors.Join(errs...)
}

// heap is what is in use.
func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// processTime is what the process has used of its processors.
func processTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
