package locktest

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
)

// RequireAtOnce runs a blocking Lock that must not wait.
func RequireAtOnce(t testing.TB, lock func(context.Context) error) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	start := time.Now()
	err := lock(ctx)
	require.Error(t, err)
	require.NoError(t, ctx.Err(), "it waited")
	require.Less(t, time.Since(start), 2*time.Second)
	require.False(t, relock.IsRetryableErr(err), err)
	return err
}

// LeastPrivilege are the commands that locks use, in scripts too; PING is for [Client.Ping] alone. AUTH is always allowed, SELECT is needed
// with WithDatabase. With them an operator makes a user:
//
//	ACL SETUSER app on >password resetkeys ~relock:* -@all +set +get +del +type +pttl +pexpire +hmget +hset +hdel +eval +evalsha +ping
var LeastPrivilege = []string{"set", "get", "del", "type", "pttl", "pexpire", "hmget", "hset", "hdel", "eval", "evalsha", "ping"}
