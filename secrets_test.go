package relock

import (
	"context"
	"fmt"
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
			use(NewReentrantLock("r", c, WithOwner("me")))
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
