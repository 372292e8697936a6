package proof

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

// crowd is many goroutines that wait for one lock or semaphore, on several
// clients.
type crowd struct {
	*testing.T
	permits int // 0 of a plain lock
	server  *redistest.Server
	conn    redis.Conn
	clients []*relock.Client
	waiters int // of each client
	options []relock.LockOption

	mu   sync.Mutex
	own  int      // commands of the test
	got  []string // holds in the order of their grants
	cost float64  // commands of the server for each of its grants, those within scripts too
}

func newCrowd(t *testing.T, clients, waiters int, options ...relock.LockOption) *crowd {
	c := &crowd{T: t, server: redistest.Start(t), waiters: waiters, options: append(options, relock.WithBlock())}
	c.conn = c.server.Dial(t)
	t.Cleanup(func() { _ = c.conn.Close() })
	for range clients {
		c.clients = append(c.clients, newParentClient(t, c.server))
	}
	return c
}

func (c *crowd) do(command string, args ...any) any {
	c.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.own++
	reply, err := c.conn.Do(command, args...)
	require.NoError(c, err, command)
	return reply
}

// commands is how many the server has executed.
func (c *crowd) commands() int {
	c.Helper()
	info, err := redis.String(c.do("INFO", "stats"), nil)
	require.NoError(c, err)
	_, text, _ := strings.Cut(info, "total_commands_processed:")
	text, _, _ = strings.Cut(text, "\r")
	n, err := strconv.Atoi(text)
	require.NoError(c, err)
	return n
}

// gather lets all of them wait while the test holds the lock, and returns the
// queue.
func (c *crowd) gather(group *sync.WaitGroup) []string {
	c.Helper()
	release := c.takeAll()
	for i, client := range c.clients {
		acquire := c.lockOf(client)
		for n := range c.waiters {
			if c.permits == 0 {
				group.Go(func() { c.take(acquire, "") })
				continue
			}
			label := fmt.Sprintf("waiter%d-%d", i, n)
			named := c.lockOf(client, relock.WithLabel(label))
			group.Go(func() { c.take(named, label) })
		}
	}
	queue := keyInRedis("crowd") + ":q"
	all := len(c.clients) * c.waiters
	if !c.fair() && c.permits == 0 {
		all = len(c.clients)               // the others wait in the process
		time.Sleep(300 * time.Millisecond) // until they do: nothing shows it
	}
	testkit.Eventually(c, patience, func() bool { return c.do("ZCARD", queue) == int64(all) }, "they gather")
	waits, err := redis.Strings(c.do("ZRANGE", queue, 0, -1), nil)
	require.NoError(c, err)
	release()
	return waits
}

func (c *crowd) lockOf(client *relock.Client, opts ...relock.LockOption) func(context.Context) (relock.Hold, error) {
	if c.permits == 0 {
		return relock.NewRedisLock("crowd", client, c.options...).Acquire
	}
	return relock.NewSemaphore("crowd", c.permits, client, slices.Concat(c.options, opts)...).Acquire
}

// takeAll takes the lock, or all permits.
func (c *crowd) takeAll() (release func()) {
	c.Helper()
	acquire := c.lockOf(newParentClient(c, c.server))
	var holds []relock.Hold
	for range max(1, c.permits) {
		hold, err := acquire(c.Context())
		require.NoError(c, err)
		holds = append(holds, hold)
	}
	return func() {
		for _, h := range holds {
			require.NoError(c, h.Unlock(c.Context()))
		}
	}
}

func (c *crowd) fair() bool { return len(c.options) > 1 } // WithBlock is one

// take takes the lock once, and notes under which hold.
func (c *crowd) take(acquire func(context.Context) (relock.Hold, error), label string) {
	hold, err := acquire(c.Context())
	if err != nil {
		c.Errorf("a waiter got no lock: %v", err)
		return
	}
	c.note(label)
	if err := hold.Unlock(c.Context()); err != nil {
		c.Errorf("unlock: %v", err)
	}
}

// note notes the hold, as the server has it: of a semaphore that with a label.
func (c *crowd) note(label string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.permits > 0 {
		c.own += 3 // a script with two commands
		c.got = append(c.got, locktest.HoldOf(c, c.conn, keyInRedis("crowd"), label))
		return
	}
	c.own++
	value, err := redis.String(c.conn.Do("GET", keyInRedis("crowd")))
	if err == nil {
		hold, _ := lockspec.CutHold(strings.Split(value, "|")[2]) // it may be reserved only
		c.got = append(c.got, hold)
	}
}

// run serves them all, and returns the holds in the order of the queue.
func (c *crowd) run() (queued []string) {
	c.Helper()
	c.do("CONFIG", "SET", "slowlog-log-slower-than", 1000, "slowlog-max-len", 100000)
	c.do("CONFIG", "RESETSTAT")
	var group sync.WaitGroup
	before, own := c.commands(), c.own
	start, watch := time.Now(), testkit.NewStopwatch(c)
	for _, wait := range c.gather(&group) {
		queued = append(queued, strings.Join(strings.Split(wait, ":")[:2], ":"))
	}
	gathered := time.Now()
	group.Wait()
	c.cost = float64(c.commands()-before-(c.own-own)) / float64(len(slices.Compact(slices.Clone(c.got))))
	c.report(watch, gathered.Sub(start), time.Since(gathered))
	require.Len(c, c.got, len(c.clients)*c.waiters)
	return queued
}

// report logs the figures, and fails if one script in twenty was slow. A few
// slow ones are ignored, since the machine may have delayed the server.
func (c *crowd) report(watch *testkit.Stopwatch, gathering, serving time.Duration) {
	c.Helper()
	info, err := redis.String(c.do("INFO", "commandstats"), nil)
	require.NoError(c, err)
	_, evalsha, _ := strings.Cut(info, "cmdstat_evalsha:calls=")
	evalsha, _, _ = strings.Cut(evalsha, "\r")
	number, times, _ := strings.Cut(evalsha, ",")
	scripts, err := strconv.Atoi(number)
	require.NoError(c, err)
	slow := c.slow()
	all := len(c.clients) * c.waiters
	c.Logf("%d waiters of %d clients: queued in %v, served in %v (%v each); %.1f commands a grant, %d took over 1 ms; "+
		"scripts: %d,%s",
		all, len(c.clients), gathering.Round(time.Millisecond), serving.Round(time.Millisecond),
		(serving / time.Duration(all)).Round(time.Microsecond), c.cost, len(slow), scripts, times)
	if few := 2 + scripts/20; len(slow) > few {
		watch.Check(slow[few], time.Millisecond, "%d commands took over 1 ms, of %d scripts", len(slow), scripts)
	}
}

// slow returns the times of the slow commands, the longest first.
func (c *crowd) slow() (took []time.Duration) {
	c.Helper()
	log, err := redis.SlowLogs(c.do("SLOWLOG", "GET", 100000), nil)
	require.NoError(c, err)
	for _, one := range log {
		took = append(took, one.ExecutionTime)
	}
	slices.SortFunc(took, func(a, b time.Duration) int { return cmp.Compare(b, a) })
	return took
}

// With ten times the waiters, a grant costs the server no more commands: one
// command per waiter would show. It may cost less, since both figures include
// what happens once, such as subscribing.
//
// Holds of an unfair lock that are handed off in memory are one grant of the
// server. Their number differs from run to run, and so does the cost of one, by
// a tenth.
func TestCostOfAGrant(t *testing.T) {
	for name, options := range map[string][]relock.LockOption{"unfair": nil, "fair": {relock.WithFair()}} {
		t.Run(name, func(t *testing.T) {
			requireSameCost(t, newCrowd(t, 4, 60, options...), newCrowd(t, 4, 600, options...))
		})
	}
}

// requireSameCost returns the holds of many in the order of the queue.
func requireSameCost(t *testing.T, few, many *crowd) (queued []string) {
	t.Helper()
	few.run()
	queued = many.run()
	t.Logf("%.1f commands for each grant of few, %.1f of many", few.cost, many.cost)
	require.Less(t, many.cost, 1.5*few.cost, "commands for each grant of many, and of few")
	return queued
}

// The same holds for a semaphore. All its waiters are served, also thousands.
// If it is fair, none passes more others than have a permit with it, and a
// grant costs at most four times that of a plain lock.
func TestCrowdOfASemaphore(t *testing.T) {
	for name, options := range map[string][]relock.LockOption{"unfair": nil, "fair": {relock.WithFair()}} {
		t.Run(name, func(t *testing.T) {
			few, many := newCrowd(t, 4, pick(100, 40), options...), newCrowd(t, 4, pick(2500, 400), options...)
			few.permits, many.permits = 8, 8
			place := map[string]int{}
			for i, hold := range requireSameCost(t, few, many) {
				place[hold] = i
			}
			if !many.fair() {
				return
			}
			for i, hold := range many.got {
				require.Less(t, place[hold], i+many.permits, "it has passed others")
			}
			plain := newCrowd(t, 4, pick(100, 40), options...)
			plain.run()
			t.Logf("%.1f commands for each grant, %.1f of a plain lock", many.cost, plain.cost)
			require.Less(t, many.cost, 4*plain.cost)
		})
	}
}

// Thousands of waiters for one lock are all served, in order if it is fair, and
// no script gets slow.
func TestCrowd(t *testing.T) {
	for _, tt := range []struct {
		name             string
		clients, waiters int
		options          []relock.LockOption
	}{
		{"one client, fair", 1, pick(10000, 400), []relock.LockOption{relock.WithFair()}},
		{"one client, unfair", 1, pick(10000, 400), nil},
		{"four clients, fair", 4, pick(1000, 100), []relock.LockOption{relock.WithFair()}},
		{"four clients, unfair", 4, pick(1000, 100), nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := newCrowd(t, tt.clients, tt.waiters, tt.options...)
			queued := c.run()
			if c.fair() {
				require.Equal(t, queued, c.got, "order")
			}
		})
	}
}
