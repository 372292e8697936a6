package relock

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/redistest"
)

// Without permission to subscribe or to publish, waiters go by polls at their poll interval, and the log says so once.
func TestWaitersWithoutMessages(t *testing.T) {
	t.Parallel()
	var cells []cellRun
	for name, rules := range map[string][]any{
		"no channel":             {"~*", "+@all", "resetchannels"},
		"no channel, no publish": {"~*", "+@all", "-publish", "resetchannels"},
		"no subscribe":           {"~*", "&*", "+@all", "-subscribe"},
		"no publish":             {"~*", "&*", "+@all", "-publish"},
	} {
		for _, m := range queueModes() {
			cells = append(cells, cellRun{name + ", " + m.name(), func(t testing.TB) {
				s := redistest.Start(t)
				s.Do(t, "ACL", append([]any{"SETUSER", "app", "on", ">pw"}, rules...)...)
				var log logBuffer
				user := []ClientOption{WithUsername("app"), log.option()}
				c, err := NewClient(s.Network, s.Address, "pw", user...)
				require.NoError(t, err)
				t.Cleanup(func() { require.NoError(t, c.Close()) })
				q := &queueBench{TB: t, queueMode: m, server: s, clients: []*Client{c}, key: keyOf(c, queueKey)}
				var took []time.Duration
				for range 7 {
					h := q.take(c)
					w := q.waitNext(t.Context(), 0, c, WithPollInterval(100*time.Millisecond))
					next, d := q.handOver(h, w)
					took = append(took, d)
					q.unlock(next)
				}
				t.Logf("median %v, longest %v", middle(took), took[len(took)-1])
				require.Less(t, middle(took), 500*time.Millisecond, "polls at the poll interval")
				q.requireNothingLeft()
				require.Equal(t, 1, strings.Count(log.String(), "waiters poll"), log.String())
				require.Equal(t, 1, strings.Count(log.String(), "\n"), log.String())
			}})
		}
	}
	together(t, cells)
}

// A waiter whose permission or password goes is told so, and does not sleep for ever.
func TestWaiterLosesItsPermission(t *testing.T) {
	t.Parallel()
	var cells []cellRun
	for name, change := range map[string][][]any{
		"commands":       {{"ACL", "SETUSER", "app", "-@all"}},
		"keys":           {{"ACL", "SETUSER", "app", "resetkeys"}},
		"scripts":        {{"ACL", "SETUSER", "app", "-evalsha", "-eval"}},
		"the user":       {{"ACL", "DELUSER", "app"}},
		"password":       {{"ACL", "SETUSER", "app", "resetpass", ">new"}, {"CLIENT", "KILL", "USER", "app"}},
		"user is off":    {{"ACL", "SETUSER", "app", "off"}, {"CLIENT", "KILL", "USER", "app"}},
		"in the scripts": {{"ACL", "SETUSER", "app", "-@all", "+evalsha", "+eval", "+publish", "+subscribe"}},
	} {
		for _, m := range queueModes() {
			cells = append(cells, cellRun{name + ", " + m.name(), func(t testing.TB) {
				s := redistest.Start(t)
				s.Do(t, "ACL", "SETUSER", "app", "on", ">pw", "~*", "&*", "+@all")
				q := newQueueBenchOn(t, s, m, 1)
				c, err := NewClient(s.Network, s.Address, "pw", WithUsername("app"), WithKeyPrefix(q.clients[0].config.prefix))
				require.NoError(t, err)
				t.Cleanup(func() { require.NoError(t, c.Close()) })
				h := q.take(q.clients[0])
				w := q.waitNext(context.Background(), 0, c)
				q.awaitHeard(c)
				for _, command := range change {
					s.Do(t, command[0].(string), command[1:]...)
				}
				start := time.Now()
				err = w.end()
				t.Logf("%s: after %v: %v", name, time.Since(start), err)
				require.ErrorIs(t, err, ErrDenied)
				require.Less(t, time.Since(start), 5*time.Second)
				q.unlock(h)
			}})
		}
	}
	together(t, cells)
}
