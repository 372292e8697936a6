package proof

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/queue"
)

// TestTaskStateMachine makes random calls of one task queue by two clients.
// Messages are lost, doubled and late, connections are cut, the server's clock
// jumps, and it is killed and restarted from its append-only file. After each
// step, the server's keys are compared with a model.
//
// A failure prints the shortest sequence that was found, and a seed.
func TestTaskStateMachine(t *testing.T) {
	t.Parallel()
	b := &taskBench{t: t, steps: map[string]int{}}
	b.server, b.clock = redistest.StartWithClock(t, appendOnly("no")...)
	b.proxy = faults.Start(t, b.server.Network, b.server.Address)
	b.conn = b.server.Dial(t)
	t.Cleanup(func() { _ = b.conn.Close() })
	for _, f := range taskFaults {
		b.proxy.On(func(args []string) bool { return isScript(args) && b.armed.CompareAndSwap(f.name, "") }, faults.Every, f.action)
	}
	b.loadReceive()
	rapid.Check(t, b.run)
	total := 0
	for _, name := range slices.Sorted(maps.Keys(b.steps)) {
		t.Logf("%7d %s", b.steps[name], name)
		total += b.steps[name]
	}
	t.Logf("%7d steps, %d of them met a fault", total, b.met)
	if defaultChecks {
		require.GreaterOrEqual(t, total, pick(10_000, 100), "steps")
	}
}

// loadReceive lets each receive be one request.
func (b *taskBench) loadReceive() {
	b.server.Do(b.t, "SCRIPT", "LOAD", script.TaskReceive.Source)
}

func isScript(args []string) bool { return strings.HasPrefix(strings.ToUpper(args[0]), "EVAL") }

const (
	taskTimeout = 150 * time.Millisecond // of a command
	taskKeys    = serverPrefix + "queue:{machine}:"
)

// taskFaults are what may happen to a request or its answer.
var taskFaults = []struct {
	name   string
	action faults.Action
}{
	{"request doubled", faults.Double},
	{"request doubled, late", faults.Hold},
	{"cut before the request", faults.CutBefore},
	{"cut in the request", faults.CutInRequest},
	{"cut in the answer", faults.CutInAnswer},
	{"cut instead of answer", faults.CutAfter},
	{"request late, cut", faults.HoldAndCut},
	{"error line", faults.ErrorLine("LOADING soon")},
	{"executed, an error line", faults.ExecuteThenError("LOADING soon")},
	{"request lost", faults.DropRequest},
	{"answer lost", faults.DropAnswer},
	{"request late", faults.HoldOnly},
	{"answer late", faults.Delay(2 * taskTimeout)},
}

// taskBench is what all runs share.
type taskBench struct {
	t      *testing.T
	server *redistest.Server
	clock  *redistest.Clock
	proxy  *faults.Proxy
	conn   redis.Conn
	armed  atomic.Value // the name of the fault that the next script meets

	steps    map[string]int
	met      int
	receives atomic.Int64
}

// taskMachine is one run.
type taskMachine struct {
	*taskBench
	clients    []*relock.Client
	queues     []*queue.Queue
	model      *taskModel
	deliveries []*queue.Delivery // settled and lost ones, too
	fence      int64             // the highest so far
	collected  int
	trail      []string
}

// run is one sequence of calls.
func (b *taskBench) run(r *rapid.T) {
	m := &taskMachine{taskBench: b}
	b.armed.Store("")
	b.proxy.Release()
	_, err := b.conn.Do("FLUSHALL")
	require.NoError(r, err)
	unique := rapid.SampledFrom([]time.Duration{0, 35 * time.Minute}).Draw(r, "unique")
	m.model = newTaskModel(unique)
	defer func() {
		for _, c := range m.clients {
			_ = c.Close()
		}
	}()
	for range 2 {
		m.add(r, unique)
	}
	r.Repeat(map[string]func(*rapid.T){"step": m.step})
}

func (m *taskMachine) add(r *rapid.T, unique time.Duration) {
	c, err := relock.NewClient(m.proxy.Network, m.proxy.Address, "", relock.WithKeyPrefix(serverPrefix), relock.WithCommandTimeout(taskTimeout))
	require.NoError(r, err)
	q, err := queue.New("machine", c, queue.WithLease(modelTaskTime), queue.WithMaxAttempts(modelAttempts), queue.WithUnique(unique))
	require.NoError(r, err)
	m.clients, m.queues = append(m.clients, c), append(m.queues, q)
}

// call makes a call that may meet a fault, and reports whether it did.
func (m *taskMachine) call(r *rapid.T, what string, f func()) (met bool) {
	name := ""
	if rapid.IntRange(0, 7).Draw(r, "fault") == 7 {
		name = rapid.SampledFrom(taskFaults).Draw(r, "which").name
	}
	m.trail = append(m.trail, strings.TrimSpace(what+" "+name))
	m.armed.Store(name)
	f()
	if met = m.armed.Swap("") == "" && name != ""; met {
		m.met++
	}
	return met
}

// become requires that the server is soon as one of the models.
func (m *taskMachine) become(r *rapid.T, models ...*taskModel) {
	var got string
	var due map[string]int64
	for end := time.Now().Add(machinePatience); time.Now().Before(end); time.Sleep(time.Millisecond) {
		got, due = m.state(r)
		for _, model := range models {
			if got == model.String() && model.isDue(due) {
				m.model = model
				return
			}
		}
	}
	text := fmt.Sprintf("%s\nthe server has\n%s%v\nthe model has\n%v", strings.Join(m.trail, "\n"), got, due, models)
	m.t.Log(text) // rapid forgets a failure that it cannot repeat
	require.Fail(r, "the queue differs from the model", text)
}

// now is the time by the server's clock.
func (m *taskMachine) now() time.Time { return m.clock.Now() }

// later returns a time after d, or somewhat later if that is close to another.
func (m *taskMachine) later(d time.Duration) time.Duration {
	for m.model.near(m.now().Add(d)) {
		d += time.Minute
	}
	return d
}

// collect ends leases that are over, by a receiver that wants nothing.
func (m *taskMachine) collect(r *rapid.T) {
	m.collected++
	keys := script.TaskReceive.On(strings.TrimSuffix(taskKeys, ":"), "collector:1")
	args := redis.Args{script.TaskReceive.Source, len(keys)}.AddFlat(keys).
		Add("collector:1", m.collected, m.collected-1, 0, modelTaskTime.Milliseconds(), modelAttempts, 1000, (30 * 24 * time.Hour).Milliseconds(), 0, 0)
	_, err := m.conn.Do("EVAL", args...)
	require.NoError(r, err)
	m.model.collect(m.now())
}

func payloadOf(id string) string { return fmt.Sprint("of ", id) }
