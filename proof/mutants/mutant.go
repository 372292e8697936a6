package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// mutant is a fault that is put into the code, and the test that must fail
// because of it.
type mutant struct {
	name     string // in plain words
	file     string // from the root of the project
	old, new string // old must occur exactly once
	in       string // the folder of the test, from the root of the project; "" is the root package
	test     string // the name of a test, and perhaps those of subtests as -test.run takes them
}

// all are the mutants, as they are in the documentation.
var all = slices.Concat(ownerFaults, reentrantFaults, validityFaults, watchdogFaults, cleanUpFaults, answerFaults,
	remoteHandOffFaults, waitFaults, clientFaults, localHandOffFaults, reentrantHandOffFaults, fenceFaults, inspectionFaults, groupFaults, quorumWaitFaults, rwFaults, observerFaults, lockerFaults, explainFaults, etcdFaults, etcdWaitFaults, taskFaults, movingFaults, routeFaults, goredisFaults, sentinelFaults, redirectFaults, slotTableFaults, shardedFaults, grantFaults, atOnceFaults)

// apply returns the file, and the file with the fault in it.
func (m mutant) apply(root string) (old, text string, err error) {
	source, err := os.ReadFile(filepath.Join(root, m.file))
	if err != nil {
		return "", "", err
	}
	old = string(source)
	if n := strings.Count(old, m.old); n != 1 {
		return "", "", fmt.Errorf("%s no longer has once, but %d times:\n%s", m.file, n, m.old)
	}
	return old, strings.Replace(old, m.old, m.new, 1), nil
}

func (m mutant) inScript() bool { return strings.HasSuffix(m.file, ".lua") }

// function is the test without its subtests.
func (m mutant) function() string {
	name, _, _ := strings.Cut(m.test, "/")
	return name
}

// pattern is the test for -test.run.
func (m mutant) pattern() string {
	name, subtests, ok := strings.Cut(m.test, "/")
	if !ok {
		return "^" + name + "$"
	}
	return "^" + name + "$/" + subtests
}
