package driver

import (
	"errors"
	"fmt"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/errs"
)

// Servers before 7.0 put the error of a command in a script behind the name of
// the script, once or twice.
func TestErrorLinesOfEachServer(t *testing.T) {
	t.Parallel()
	const (
		call  = "ERR Error running script (call to f_1028a5dba704e1d8a01fd96efeba25bb78f62df2): "
		sha   = " script: 1028a5dba704e1d8a01fd96efeba25bb78f62df2, on @user_script:4."
		alien = "-WRONGTYPE Operation against a key holding the wrong kind of value"
	)
	for _, tt := range []struct {
		line              string
		code              string
		retryable, denied bool
	}{
		{line: call + "@user_script:5: -OOM command not allowed when used memory > 'maxmemory'.", code: "OOM", retryable: true},
		{line: call + "@user_script:5: @user_script: 5: -OOM command not allowed when used memory > 'maxmemory'.", code: "OOM", retryable: true},
		{line: call + "@user_script:4: @user_script: 4: -READONLY You can't write against a read only replica. ", code: "READONLY", retryable: true},
		{line: "@user_script: 4: -READONLY You can't write against a read only replica.", code: "READONLY", retryable: true},
		{line: call + "@user_script:4: @user_script: 4: -MISCONF Redis is configured to save RDB snapshots", code: "MISCONF", retryable: true},
		{line: call + "@user_script:4: @user_script: 4: -NOREPLICAS Not enough good replicas to write.", code: "NOREPLICAS", retryable: true},
		{line: call + "@user_script:4: TRYAGAIN Multiple keys request during rehashing of slot", code: "TRYAGAIN", retryable: true},
		{line: call + "@user_script:1: WRONGTYPE Operation against a key holding the wrong kind of value", code: "WRONGTYPE"},
		{line: call + "@user_script:1: " + alien, code: "WRONGTYPE"},
		{line: call + "@user_script:7: @user_script: 7: The user executing the script can't run this command or subcommand", code: "The", denied: true},
		{line: call + "@user_script:7: @user_script: 7: -NOPERM this user has no permissions", code: "NOPERM", denied: true},
		{line: call + "@user_script:3: user_script:3: attempt to index a nil value", code: "user_script:3:"},
		{line: "OOM command not allowed when used memory > 'maxmemory'." + sha, code: "OOM", retryable: true},
		{line: "READONLY You can't write against a read only replica." + sha, code: "READONLY", retryable: true},
		{line: "WRONGTYPE Operation against a key holding the wrong kind of value" + sha, code: "WRONGTYPE"},
		{line: "ERR The user executing the script can't run this command or subcommand" + sha, code: "ERR", denied: true},
		{line: "ERR The user executing the script can't access at least one of the keys mentioned in the command arguments" + sha, code: "ERR", denied: true},
		{line: "ERR The user executing the script can't publish to the channel mentioned in the command" + sha, code: "ERR", denied: true},
		{line: "ERR ACL failure in script: User app has no permissions to run the 'pexpire' command" + sha, code: "ERR", denied: true},
		{line: "ERR ACL failure in script: No permissions to access a key" + sha, code: "ERR", denied: true},
		{line: "ERR ACL failure in script: No permissions to access a channel" + sha, code: "ERR", denied: true},
		{line: "NOPERM User app has no permissions to run the 'evalsha' command", code: "NOPERM", denied: true},
		{line: "ERR invalid password", code: "ERR", denied: true},
		{line: "ERR Client sent AUTH, but no password is set", code: "ERR", denied: true},
		{
			line: "ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?",
			code: "ERR", denied: true,
		},
		{line: "WRONGPASS invalid username-password pair or user is disabled.", code: "WRONGPASS", denied: true},
		{line: "NOAUTH Authentication required.", code: "NOAUTH", denied: true},
		{line: "ERR unknown command 'EVALSHA', with args beginning with: 'LOADING' '1' ", code: "ERR"},
		{line: "ERR unknown command `EVALSHA`, with args beginning with: `@user_script:5: -OOM`, ", code: "ERR"},
	} {
		t.Run(tt.line, func(t *testing.T) {
			require.Equal(t, tt.code, code(redis.Error(tt.line)))
			err := Explain(redis.Error(tt.line))
			require.Equal(t, tt.retryable, IsTransient(err))
			require.Equal(t, tt.denied, errors.Is(err, errs.ErrDenied))
			require.NotContains(t, err.Error(), "with args")
			var line redis.Error
			require.ErrorAs(t, err, &line, "the server's own words are there")
		})
	}
	require.True(t, IsNoScript(fmt.Errorf("lock: %w", redis.Error("NOSCRIPT No matching script. Please use EVAL."))))
	require.False(t, IsNoScript(redis.Error("ERR NOSCRIPT")))
	require.False(t, IsNoScript(nil))
}
