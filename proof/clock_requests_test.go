package proof

import (
	"context"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/faults"
	"github.com/relock-go/relock/internal/test/redistest"
)

// since matches the time in a value since when it is held. It is for operators,
// and compared with nothing.
var since = regexp.MustCompile(`^(relock/1\|.*\|)([0-9]+)$`)

// No request carries the time of the client's wall clock, except for the time
// in the value since when it is held. All times are relative. The queue uses
// the server's clock, which is only compared with itself.
func TestNoRequestDependsOnTheClientsClock(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := faults.Start(t, s.Network, s.Address)
	c := serverClient(t, p.Network, p.Address)
	begun := time.Now()
	useEverything(t, s, c)
	tickets := waitForEverything(t, s, p, c)
	seen := p.Seen()
	words, informal := 0, 0
	for _, r := range seen {
		require.Contains(t, []string{"PING", "SET", "EVAL", "EVALSHA", "SUBSCRIBE"}, r.Name)
		for _, arg := range r.Args[1:] {
			words++
			if m := since.FindStringSubmatch(arg); m != nil {
				informal++
				arg = m[1]
			}
			if tickets[arg] {
				continue // by which the server's clock has ordered the wait
			}
			require.False(t, isWallTime(arg, begun), "%s carries the time of day: %q", r.Name, arg)
			for _, absolute := range []string{"PXAT", "EXAT", "EXPIREAT"} {
				require.NotContains(t, strings.ToUpper(arg), absolute)
			}
			require.LessOrEqual(t, strings.Count(strings.ToUpper(arg), "'TIME'"), 2,
				"only the queue and fencing read it, once each")
		}
	}
	require.Positive(t, informal, "no value says since when")
	t.Logf("%d requests with %d words, %d of which say since when", len(seen), words, informal)
}

// useEverything makes every kind of request of a lock.
func useEverything(t *testing.T, s *redistest.Server, c *relock.Client) {
	t.Helper()
	const lease = 9 * time.Second // a command has a third of it
	var holds []relock.Hold
	for _, kind := range serverKinds {
		holds = append(holds, kind.hold(t, c, relock.WithWatchdog(lease), relock.WithMinHold(10*time.Millisecond)))
	}
	requireRenewed(t, 2*lease, holds...)
	for i, kind := range serverKinds {
		require.NoError(t, holds[i].Extend(t.Context(), time.Minute))
		inner, err := kind.lock(kind.name, c).TryAcquire(holds[i].Context())
		if err == nil { // a reentrant one
			require.NoError(t, inner.Unlock(t.Context()))
		}
		require.NoError(t, holds[i].Unlock(t.Context()))
		next, err := kind.lock(kind.name, c, relock.WithBlock()).Acquire(context.WithoutCancel(t.Context()))
		require.NoError(t, err)
		s.Do(t, "SCRIPT", "FLUSH") // the next release is sent in full
		require.NoError(t, next.Unlock(t.Context()))
	}
}

// waitForEverything makes every kind of request of a wait. It returns the
// tickets that the server has assigned.
func waitForEverything(t *testing.T, s *redistest.Server, p *faults.Proxy, c *relock.Client) map[string]bool {
	t.Helper()
	scripts := map[string]faults.Match{}
	for _, name := range []string{"enqueue", "poll", "claim", "cancel"} {
		digest, err := redis.String(s.Do(t, "SCRIPT", "LOAD", scriptSources()[name]), nil)
		require.NoError(t, err)
		scripts[name] = faults.Script(digest)
	}
	var mu sync.Mutex
	all, cases := map[string]bool{}, map[string]*contended{}
	for _, kind := range serverKinds {
		for mode, opts := range map[string][]relock.LockOption{"unfair": nil, "fair": {relock.WithFair()}} {
			key := "contended " + kind.name + " " + mode
			polls := func(args []string) bool { return scripts["poll"](args) && slices.Contains(args, serverKey(key)) }
			cases[key] = &contended{s, p, c, key, kind, opts, polls, map[string]bool{}}
		}
	}
	together(t, cases, func(t *testing.T, one *contended) {
		one.wait(t)
		mu.Lock()
		defer mu.Unlock()
		maps.Copy(all, one.tickets)
	})
	for name, match := range scripts {
		require.True(t, p.Await(match, 1, patience), name)
	}
	return all
}

// contended is a lock for which a client waits behind another one.
type contended struct {
	server  *redistest.Server
	proxy   *faults.Proxy
	client  *relock.Client
	key     string
	kind    serverKind
	mode    []relock.LockOption
	polls   faults.Match
	tickets map[string]bool
}

// wait waits twice: one wait is given up, and one is granted.
func (c *contended) wait(t *testing.T) {
	t.Helper()
	held, err := c.kind.lock(c.key, clientOf(t, c.server), c.mode...).TryAcquire(t.Context())
	require.NoError(t, err)
	lock := c.kind.lock(c.key, c.client,
		append(c.mode, relock.WithBlock(), relock.WithPollInterval(10*time.Millisecond))...)
	for _, giveUp := range []bool{true, false} {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		ended := make(chan error, 1)
		go func() {
			hold, err := lock.Acquire(ctx)
			if err == nil {
				err = hold.Unlock(t.Context())
			}
			ended <- err
		}()
		require.True(t, c.proxy.Await(c.polls, c.proxy.Count(c.polls)+1, patience), "a waiter polls")
		c.tickets[c.newTicket(t)] = true
		if giveUp {
			cancel()
			require.ErrorIs(t, <-ended, context.Canceled)
		} else {
			require.NoError(t, held.Unlock(t.Context()))
			require.NoError(t, <-ended)
		}
	}
}

// newTicket waits until the server has assigned a new ticket. A poll under way
// may briefly restore one that was cancelled.
func (c *contended) newTicket(t *testing.T) (ticket string) {
	t.Helper()
	require.Eventually(t, func() bool {
		waits, err := redis.StringMap(c.server.Do(t, "ZRANGE", serverKey(c.key)+":q", 0, -1, "WITHSCORES"), nil)
		for _, at := range waits {
			if !c.tickets[at] {
				ticket = at
			}
		}
		return err == nil && ticket != ""
	}, patience, time.Millisecond)
	return ticket
}

// isWallTime reports whether a word contains a number that is about now, in any
// unit from seconds to nanoseconds.
func isWallTime(word string, now time.Time) bool {
	for _, digits := range regexp.MustCompile(`[0-9]{9,19}`).FindAllString(word, -1) {
		n, err := strconv.ParseInt(digits, 10, 64)
		if err != nil {
			continue
		}
		for _, unit := range []time.Duration{time.Second, time.Millisecond, time.Microsecond, time.Nanosecond} {
			at := now.UnixNano() / int64(unit)
			if day := int64(24 * time.Hour / unit); n > at-day && n < at+day {
				return true
			}
		}
	}
	return strings.Contains(word, now.UTC().Format("2006-01-02")) || strings.Contains(word, now.Format("2006-01-02"))
}
