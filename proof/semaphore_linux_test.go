package proof

import (
	"regexp"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/test/faults"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

// permitContest is processes that take the permits of one semaphore, or the
// tasks of a queue with a limit.
type permitContest struct {
	*testing.T
	server *redistest.Server
	crew   *faults.Crew
}

func newPermitContest(t *testing.T, processes, goroutines, limit int, keep time.Duration) *permitContest {
	t.Helper()
	return startContest(t, "permits", processes, strconv.Itoa(goroutines), strconv.Itoa(limit),
		strconv.FormatInt(keep.Milliseconds(), 10))
}

func startContest(t *testing.T, role string, processes int, arguments ...string) *permitContest {
	t.Helper()
	c := &permitContest{T: t, server: redistest.Start(t)}
	arguments = append([]string{c.server.Network, c.server.Address}, arguments...)
	c.crew = faults.StartCrew(t, processes, func(int) *faults.Child { return faults.Spawn(c, role, arguments...) })
	return c
}

// grants returns how many permits there were so far.
func (c *permitContest) grants() int { return c.crew.Count("begin") }

// finish ends all processes, and returns when their permits were valid.
func (c *permitContest) finish() (all []locktest.Span) {
	c.Helper()
	for _, v := range endAll(c, c.crew) {
		all = append(all, v.Span)
	}
	return all
}

// 64 goroutines in 4 processes want 7 permits, while processes are stopped and
// killed. No more than 7 hold one together by what they know, and at times 7
// do.
func TestSemaphoreWhileProcessesAreStoppedAndKilled(t *testing.T) {
	t.Parallel()
	const processes, goroutines, limit = 4, 16, 7
	holds := pick(100_000, 1500)
	c := newPermitContest(t, processes, goroutines, limit, 0)
	kills := 0
	for n := 0; n < 4 || c.grants() < holds; n++ {
		time.Sleep(permitLease)
		if i := n / 2 % processes; n%2 == 0 {
			c.crew.Halt(i, 2*permitLease)
		} else {
			c.crew.Kill(i)
			kills++
		}
	}
	spans := c.finish()
	t.Logf("%d permits, %d kills, %d together", len(spans), kills, locktest.MostTogether(spans))
	require.Equal(t, limit, locktest.MostTogether(spans))
	testkit.Eventually(t, testkit.Patience,
		func() bool { return c.server.Do(t, "EXISTS", keyInRedis("permits")) == int64(0) }, "all permits come back")
}

// permitGrant is how a grant adds a permit. The first one adds the mode, too.
var permitGrant = regexp.MustCompile(`"ZADD" "[^"]*" (?:"inf" "relock/1\|c[fu]" )?"\d+" "r:[^"]+" "-(\d+)" "#`)

// starts notes when permits are granted, by the server's clock in microseconds.
type starts struct {
	conn redis.Conn
	done sync.WaitGroup
	mu   sync.Mutex
	at   []int64
}

func (w *starts) add(at int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.at = append(w.at, at)
}

// await waits until more permits were granted than there are. On a busy machine
// processes take long to start.
func (w *starts) await(t *testing.T, limit int) {
	t.Helper()
	testkit.Eventually(t, testkit.Patience, func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return len(w.at) > limit
	}, "permits are granted again")
}

func watchStarts(t *testing.T, s *redistest.Server, keep time.Duration) *starts {
	t.Helper()
	w := &starts{conn: s.Dial(t)}
	_, err := w.conn.Do("MONITOR")
	require.NoError(t, err)
	w.done.Go(func() {
		for {
			line, err := redis.String(w.conn.Receive())
			if err != nil {
				return // it was closed
			}
			if found := permitGrant.FindStringSubmatch(line); found != nil {
				end, _ := strconv.ParseInt(found[1], 10, 64) // \d+
				w.add(end - keep.Microseconds())
			}
		}
	})
	return w
}

func (w *starts) stop() []int64 {
	_ = w.conn.Close()
	w.done.Wait()
	slices.Sort(w.at)
	return w.at
}

// With a minimum hold no window of its length has more grants than there are
// permits, by the server's clock, from three processes of which one is killed.
func TestSemaphoreRateOverProcesses(t *testing.T) {
	t.Parallel()
	limit, keep, length := pick(20, 5), pick(time.Second, 300*time.Millisecond), pick(30*time.Second, 3*time.Second)
	c := newPermitContest(t, 3, 10, limit, keep)
	w := watchStarts(t, c.server, keep)
	time.Sleep(length / 2)
	c.crew.Kill(1)
	time.Sleep(length / 2)
	w.await(t, limit)
	at := w.stop()
	_ = c.finish()
	locktest.RequireRate(t, at, limit, keep)
	took := time.Duration(at[len(at)-1]-at[0]) * time.Microsecond
	share := float64(len(at)-limit) / (float64(limit) * took.Seconds() / keep.Seconds())
	t.Logf("%d grants in %v: %.3f of what is allowed", len(at), took, share)
	require.Greater(t, share, pick(0.95, 0.0))
}

// A killed holder, whose lease is far shorter than its minimum hold, frees
// nothing early: no more than the permits are granted in the minimum hold.
func TestSemaphoreMinimumHoldOfKilledProcesses(t *testing.T) {
	t.Parallel()
	limit, keep := 3, pick(60*time.Second, 2*time.Second)
	c := newPermitContest(t, 2, 4, limit, keep)
	w := watchStarts(t, c.server, keep)
	for n := range 4 {
		time.Sleep(keep / 3)
		c.crew.Kill(n % 2)
	}
	w.await(t, limit)
	at := w.stop()
	_ = c.finish()
	t.Logf("%d grants", len(at))
	locktest.RequireRate(t, at, limit, keep)
}
