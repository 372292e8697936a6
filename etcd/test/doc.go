// Package test has the tests of etcdlock that need an etcd server. It is a
// separate module, so that users of etcdlock download only the client.
package test
