package etcdlock

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// No verb shows the password of the client in a Locker, nor in a copy of it,
// which has no String.
func TestLockerHidesThePassword(t *testing.T) {
	t.Parallel()
	client := clientv3.NewCtxClient(context.Background())
	client.Username, client.Password = "app", "hunter2"
	defer func() { _ = client.Close() }()
	l, err := NewLocker(client)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range []any{l, reflect.ValueOf(l).Elem().Interface(), []any{l}, WithFair()} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%d", "%x", "%t"} {
			if text := fmt.Sprintf(verb, v); strings.Contains(text, client.Password) {
				t.Errorf("%T with %s: %s", v, verb, text)
			}
		}
	}
}
