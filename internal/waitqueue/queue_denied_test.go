package waitqueue_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/locktest"
	"github.com/relock-go/relock/internal/redistest"
)

// Without permission to subscribe or to publish, waiters go by polls at their poll interval, and the log says so once.
func TestWaitersWithoutMessages(t *testing.T) {
	t.Parallel()
	var cells []locktest.CellRun
	for name, rules := range map[string][]any{
		"no channel":             {"~*", "+@all", "resetchannels"},
		"no channel, no publish": {"~*", "+@all", "-publish", "resetchannels"},
		"no subscribe":           {"~*", "&*", "+@all", "-subscribe"},
		"no publish":             {"~*", "&*", "+@all", "-publish"},
	} {
		for _, m := range locktest.QueueModes() {
			cells = append(cells, locktest.CellRun{Name: name + ", " + m.Title(), Run: func(t testing.TB) {
				s := redistest.Start(t)
				s.Do(t, "ACL", append([]any{"SETUSER", "app", "on", ">pw"}, rules...)...)
				var log locktest.LogBuffer
				user := []relock.ClientOption{relock.WithUsername("app"), log.Option()}
				c, err := relock.NewClient(s.Network, s.Address, "pw", user...)
				require.NoError(t, err)
				t.Cleanup(func() { require.NoError(t, c.Close()) })
				q := &locktest.QueueBench{TB: t, QueueMode: m, Server: s, Clients: []*relock.Client{c}, Key: locktest.KeyOf(c, locktest.QueueKey)}
				var took []time.Duration
				for range 7 {
					h := q.Take(c)
					w := q.WaitNext(t.Context(), 0, c, relock.WithPollInterval(100*time.Millisecond))
					next, d := q.HandOver(h, w)
					took = append(took, d)
					q.Unlock(next)
				}
				t.Logf("median %v, longest %v", locktest.Middle(took), took[len(took)-1])
				require.Less(t, locktest.Middle(took), 500*time.Millisecond, "polls at the poll interval")
				q.RequireNothingLeft()
				require.Equal(t, 1, strings.Count(log.String(), "waiters poll"), log.String())
				require.Equal(t, 1, strings.Count(log.String(), "\n"), log.String())
			}})
		}
	}
	locktest.Together(t, cells)
}

// A waiter whose permission or password goes is told so, and does not sleep for ever.
func TestWaiterLosesItsPermission(t *testing.T) {
	t.Parallel()
	var cells []locktest.CellRun
	for name, change := range map[string][][]any{
		"commands":       {{"ACL", "SETUSER", "app", "-@all"}},
		"keys":           {{"ACL", "SETUSER", "app", "resetkeys"}},
		"scripts":        {{"ACL", "SETUSER", "app", "-evalsha", "-eval"}},
		"the user":       {{"ACL", "DELUSER", "app"}},
		"password":       {{"ACL", "SETUSER", "app", "resetpass", ">new"}, {"CLIENT", "KILL", "USER", "app"}},
		"user is off":    {{"ACL", "SETUSER", "app", "off"}, {"CLIENT", "KILL", "USER", "app"}},
		"in the scripts": {{"ACL", "SETUSER", "app", "-@all", "+evalsha", "+eval", "+publish", "+subscribe"}},
	} {
		for _, m := range locktest.QueueModes() {
			cells = append(cells, locktest.CellRun{Name: name + ", " + m.Title(), Run: func(t testing.TB) {
				s := redistest.Start(t)
				s.Do(t, "ACL", "SETUSER", "app", "on", ">pw", "~*", "&*", "+@all")
				q := locktest.NewQueueBenchOn(t, s, m, 1)
				c, err := relock.NewClient(s.Network, s.Address, "pw", relock.WithUsername("app"), relock.WithKeyPrefix(locktest.Prefix(q.Clients[0])))
				require.NoError(t, err)
				t.Cleanup(func() { require.NoError(t, c.Close()) })
				h := q.Take(q.Clients[0])
				w := q.WaitNext(context.Background(), 0, c)
				q.AwaitHeard(c)
				for _, command := range change {
					s.Do(t, command[0].(string), command[1:]...)
				}
				start := time.Now()
				err = w.End()
				t.Logf("%s: after %v: %v", name, time.Since(start), err)
				require.ErrorIs(t, err, relock.ErrDenied)
				require.Less(t, time.Since(start), 5*time.Second)
				q.Unlock(h)
			}})
		}
	}
	locktest.Together(t, cells)
}
