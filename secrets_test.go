package relock

import (
	"context"
	"encoding/hex"
	"fmt"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/redistest"
)

var uuidPattern = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)

// Errors and logs have no hold id, client id, password, value or argument in them, also when a server repeats what it was sent.
func TestErrorsHideSecrets(t *testing.T) {
	t.Parallel()
	const secret = "hunter2"
	for _, gone := range []string{"AUTH", "EVALSHA", "EVAL", "SET", "PING", "TYPE", "DEL"} {
		t.Run(gone, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t, "--rename-command", gone, "")
			s.Do(t, "ACL", "SETUSER", "app", "on", ">"+secret, "~*", "&*", "+@all")
			var log logBuffer
			c, err := NewClient(s.Network, s.Address, secret, WithUsername("app"), WithCommandTimeout(500*time.Millisecond), log.option(),
				WithLabel(secret))
			require.NoError(t, err)
			defer func() { require.NoError(t, c.Close()) }()
			var said []string
			note := func(texts ...any) {
				for _, text := range texts {
					for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
						said = append(said, fmt.Sprintf(verb, text))
					}
				}
			}
			use := func(l interface {
				Mutex
				Acquire(context.Context) (Hold, error)
			},
			) {
				h, err := l.Acquire(t.Context())
				note(err)
				if err == nil {
					note(h, h.Extend(t.Context(), 40*time.Second), h.Unlock(t.Context()), h.Err(), context.Cause(h.Context()))
				}
				note(l.Lock(t.Context()), l.Lock(t.Context()), l.Unlock(t.Context()), l.Do(t.Context(), noWork), l.Unlock(t.Context()))
			}
			note(c, c.Ping(t.Context()))
			done, err := c.SetNEX(t.Context(), "raw", secret, time.Minute)
			note(done, err)
			reply, err := c.Eval(t.Context(), NewScript("return redis.call('TYPE', KEYS[1])"), []string{"raw"}, secret)
			note(reply, err)
			use(NewRedisLock("p", c))
			use(owned("me", NewReentrantLock("r", c)))
			h, err := NewRedisLock("lost", c, WithWatchdog(30*time.Millisecond)).Acquire(t.Context())
			note(err)
			if err == nil {
				s.Do(t, "UNLINK", "relock:{lost}")
				select {
				case <-h.Context().Done():
				case <-time.After(100 * time.Millisecond): // it cannot be renewed
				}
				note(h.Err(), h.Unlock(t.Context()))
			}
			require.NoError(t, c.Close())
			for _, text := range append(said, strings.Split(log.String(), "\n")...) {
				require.NotContains(t, text, secret)
				require.NotContains(t, text, "with args")
				require.NotRegexp(t, uuidPattern, text)
			}
			require.Contains(t, strings.Join(said, "\n"), "nknown", "nothing was refused")
		})
	}
}

// No verb shows the password of a client that was copied, which has no String.
func TestCopiesHideThePassword(t *testing.T) {
	t.Parallel()
	const secret = "hunter2"
	c, err := NewClientURL("redis://app:"+secret+"@localhost:1", WithLabel("x"))
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close()) }()
	copied := func(v any) any { return reflect.ValueOf(v).Elem().Interface() } // which vet lets pass
	nested := reflect.New(reflect.StructOf([]reflect.StructField{{Name: "C", Type: reflect.TypeFor[Client]()}})).Elem()
	nested.Field(0).Set(reflect.ValueOf(c).Elem())
	locker, err := NewLocker(c)
	require.NoError(t, err)
	for _, v := range []any{
		copied(c), nested.Interface(),
		[]any{copied(c)},
		WithUsername("app"), WithLabel("x"),
		copied(NewRedisLock("k", c)), copied(NewReentrantLock("k", c)), copied(NewRWLock("k", c)), copied(NewMultiLock([]string{"k"}, c)),
		copied(NewRedLock("k", []*Client{c})), copied(locker),
	} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%d", "%x", "%t", "%e"} {
			text := fmt.Sprintf(verb, v)
			require.NotContains(t, text, secret, "%T %s", v, verb)
			require.NotContains(t, text, hex.EncodeToString([]byte(secret)), "%T %s", v, verb)
		}
	}
}
