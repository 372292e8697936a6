package relock_test

import (
	"context"
	"testing"

	"github.com/relock-go/relock"
)

// There is one way to log in.
func TestCredentialsBesideAPassword(t *testing.T) {
	t.Parallel()
	opt := relock.WithCredentials(func(context.Context) (user, password string, err error) { return "", "", nil })
	for _, err := range []error{
		second(relock.NewClient("tcp", "localhost:6379", "password", opt)),
		second(relock.NewClient("tcp", "localhost:6379", "", opt, relock.WithUsername("app"))),
		second(relock.NewClientURL("redis://app:password@localhost", opt)),
	} {
		requireMistakes(t, err, "new client", "WithCredentials: a user or password is given, too")
	}
	requireMistakes(t, second(relock.NewClient("tcp", "localhost:6379", "", relock.WithCredentials(nil))), "new client", "WithCredentials: is nil")
}
