// Package test has the tests of etcdlock, which need an etcd server: it is a module of its own, so that users of etcdlock
// download the client alone.
package test
