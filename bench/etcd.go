package main

import (
	"fmt"
	"os/exec"
	"strings"
	"time"
)

// The libraries on etcd.
const (
	oursEtcd     = "etcdlock"
	oursEtcdFair = "etcdlock fair"
	etcdMutex    = "concurrency.Mutex"
	etcdReading  = "recipe.RWMutex (reading)"
	etcdWriting  = "recipe.RWMutex (writing)"
	etcdPuts     = "two Puts"
)

// onEtcd is the comparison on etcd, on an embedded server of its program.
var onEtcd = scenario{
	name: "etcd", libraries: []string{oursEtcd, oursEtcdFair, etcdMutex, etcdReading, etcdWriting, etcdPuts},
	load: load{Duration: time.Second}, outside: measureEtcd, needs: []string{etcdPairs1, etcdPairs64},
}

// The figures of the program.
const (
	etcdPairs1  = "pairs a second, 1 goroutine"
	etcdPairs64 = "pairs a second, 64 goroutines"
	etcdHandOff = "hand-off p50"
	etcdHandP99 = "hand-off p99"
)

func measureEtcd(l load, runs int) (all map[string][]figures, err error) {
	err = program{"../etcd/test", "./bench"}.run(&all, "-json", "-seconds", fmt.Sprint(l.Duration.Seconds()),
		"-rounds", fmt.Sprint(runs))
	return all, err
}

// etcdVersion returns the module that the program compares with.
func etcdVersion() (string, error) {
	out, err := exec.Command("go", "list", "-C", "../etcd/test", "-m", "go.etcd.io/etcd/client/v3").Output()
	return strings.TrimSpace(string(out)), err
}
