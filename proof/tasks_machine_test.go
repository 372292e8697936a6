package proof

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/test/faults"
	"github.com/relock-go/relock/queue"
)

// TestTaskStateMachine makes random calls of one task queue by two clients.
// Messages are lost, doubled, slow and late, connections are cut, and callers
// leave. The memory is full, scripts are not permitted, and clients are
// replaced. The server's clock jumps and is set back, and it is killed and
// restarted from its append-only file. After each step, the server's keys are
// compared with a model.
//
// A failure prints the shortest sequence that was found, and a seed.
func TestTaskStateMachine(t *testing.T) {
	t.Parallel()
	b := &taskBench{bench: newBench(t, appendOnly("no")...)}
	b.proxy = faults.Start(t, b.server.Network, b.server.Address)
	for _, f := range taskFaults {
		b.proxy.On(func(args []string) bool { return isScript(args) && b.armed.CompareAndSwap(f.name, "") },
			faults.Every, f.action)
	}
	b.loadReceive()
	rapid.Check(t, b.run)
	b.report(t)
	t.Logf("%d of the steps met a fault", b.met)
	if defaultChecks {
		require.GreaterOrEqual(t, b.total(), pick(10_000, 100), "steps")
	}
}

// loadReceive lets each receive be one request.
func (b *taskBench) loadReceive() {
	b.server.Do(b.t, "SCRIPT", "LOAD", script.TaskReceive.Source)
}

func isScript(args []string) bool { return strings.HasPrefix(strings.ToUpper(args[0]), "EVAL") }

const (
	taskTimeout = 150 * time.Millisecond // of a command
	taskQueue   = serverPrefix + "queue:{machine}"
	taskKeys    = taskQueue + ":"
)

// taskFault is what may happen to a request or its answer.
type taskFault struct {
	name   string
	action faults.Action
}

var taskFaults = []taskFault{
	{"request doubled", faults.Double},
	{"request doubled, late", faults.Hold},
	{"cut before the request", faults.CutBefore},
	{"cut in the request", faults.CutInRequest},
	{"cut in the answer", faults.CutInAnswer},
	{"cut instead of answer", faults.CutAfter},
	{lateAndCut, faults.HoldAndCut},
	{"error line", faults.ErrorLine("LOADING soon")},
	{"executed, an error line", faults.ExecuteThenError("LOADING soon")},
	{"request lost", faults.DropRequest},
	{"answer lost", faults.DropAnswer},
	{"request late", faults.HoldOnly},
	{"answer late", faults.Delay(2 * taskTimeout)},
	{"answer doubled", faults.DoubleAnswer},
	{"reset in the answer", faults.ResetInAnswer},
	{"a proxy's error line", faults.ErrorLine("upstream failure")},
	{"executed, a proxy's error line", faults.ExecuteThenError("upstream failure")},
	{"request byte by byte", faults.SlowRequest(taskTimeout / 3)},
	{"answer byte by byte", faults.SlowAnswer(taskTimeout / 3)},
	{memoryIsFull, faults.Delay(0)},
	{notPermitted, faults.Delay(0)},
	{callerLeaves, faults.Delay(taskTimeout / 2)},
}

const (
	// lateAndCut is a request that arrives after its connection has gone.
	lateAndCut = "request late, cut"
	// memoryIsFull is the fault of a server that refuses what needs memory.
	memoryIsFull = "memory is full"
	// notPermitted is that of a server that refuses scripts.
	notPermitted = "scripts are not permitted"
	// callerLeaves is that of a caller whose context is cancelled when its
	// request is under way.
	callerLeaves = "caller leaves"
)

// taskBench is what all runs share.
type taskBench struct {
	*bench
	proxy    *faults.Proxy
	armed    atomic.Value // the name of the fault that the next script meets
	met      int
	receives atomic.Int64
}

// taskMachine is one run.
type taskMachine struct {
	*taskBench
	clients    []*relock.Client
	queues     []*queue.Queue
	model      *taskModel
	deliveries []*taskDelivery // settled and lost ones, too
	fence      int64           // the highest so far
	collected  int
	gates      int              // receives by lock
	suspects   [2]*taskDelivery // what each client runs that was interrupted
	trail      []string
}

// taskDelivery is a delivery, and the number of the client that has it.
type taskDelivery struct {
	*queue.Delivery
	client  int
	settled bool // or tried
}

// run is one sequence of calls.
func (b *taskBench) run(r *rapid.T) {
	b.runs++
	m := &taskMachine{taskBench: b}
	b.armed.Store("")
	b.proxy.Release()
	b.do(r, "FLUSHALL")
	unique := rapid.SampledFrom([]time.Duration{0, 35 * time.Minute}).Draw(r, "unique")
	m.model = newTaskModel(unique)
	defer func() {
		for _, c := range m.clients {
			_ = c.Close()
		}
	}()
	for range 2 {
		c, q := m.open(r)
		m.clients, m.queues = append(m.clients, c), append(m.queues, q)
	}
	r.Repeat(map[string]func(*rapid.T){"step": m.step})
}

// open returns a new client, and its queue.
func (m *taskMachine) open(r *rapid.T) (*relock.Client, *queue.Queue) {
	c, err := relock.NewClient(m.proxy.Network, m.proxy.Address, "",
		relock.WithKeyPrefix(serverPrefix), relock.WithCommandTimeout(taskTimeout))
	require.NoError(r, err)
	q, err := queue.New("machine", c, queue.WithLease(modelTaskTime), queue.WithMaxAttempts(modelAttempts),
		queue.WithMaxInterruptions(modelFatal), queue.WithUnique(m.model.unique))
	require.NoError(r, err)
	return c, q
}

// call makes a call that may meet a fault, and reports whether it did.
func (m *taskMachine) call(r *rapid.T, what string, f func(context.Context)) (met bool) {
	name := ""
	if rapid.IntRange(0, 7).Draw(r, "fault") == 7 {
		name = rapid.SampledFrom(taskFaults).Draw(r, "which").name
	}
	m.trail = append(m.trail, strings.TrimSpace(what+" "+name))
	m.armed.Store(name)
	switch name {
	case memoryIsFull:
		m.do(r, "CONFIG", "SET", "maxmemory", "1")
		defer m.do(r, "CONFIG", "SET", "maxmemory", "0")
	case notPermitted:
		m.do(r, "ACL", "SETUSER", "default", "-eval", "-evalsha")
		defer m.do(r, "ACL", "SETUSER", "default", "+eval", "+evalsha")
	}
	if name == callerLeaves {
		m.leave(r, f)
	} else {
		f(r.Context())
	}
	if met = m.armed.Swap("") == "" && name != ""; met {
		m.met++
	}
	return met
}

// leave makes a call whose caller leaves once the server has executed its first
// script, and before the answer comes.
func (m *taskMachine) leave(r *rapid.T, f func(context.Context)) {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	before, ended := m.scripts(r), make(chan struct{})
	go func() {
		defer close(ended)
		f(ctx)
	}()
	for m.armed.Load() != "" || m.scripts(r) == before {
		select {
		case <-ended: // it sends no script
			return
		case <-time.After(time.Millisecond):
		}
	}
	cancel()
	<-ended
}

// scripts returns what the server says of the scripts by their digests that it
// has executed.
func (m *taskMachine) scripts(r *rapid.T) string {
	info, err := redis.String(m.conn.Do("INFO", "commandstats"))
	require.NoError(r, err)
	_, line, _ := strings.Cut(info, "cmdstat_evalsha:calls=")
	calls, _, _ := strings.Cut(line, ",")
	return calls
}

// become requires that the server is soon as one of the models. Of several it
// is as one for good: no copy of a request comes later.
func (m *taskMachine) become(r *rapid.T, models ...*taskModel) {
	if len(models) > 1 {
		m.finish(r)
	}
	var got string
	var due map[string]int64
	for end := time.Now().Add(machinePatience); time.Now().Before(end); time.Sleep(time.Millisecond) {
		got, due = m.state(r)
		for _, model := range models {
			if got == model.String() && model.isDue(due) {
				m.model = model
				m.model.last = m.lastNumber(r)
				return
			}
		}
	}
	text := fmt.Sprintf("%s\nthe server has\n%s%v\nthe model has\n%v", strings.Join(m.trail, "\n"), got, due, models)
	m.t.Log(text) // rapid forgets a failure that it cannot repeat
	require.Fail(r, "the queue differs from the model", text)
}

// finish ends all requests that are under way. On a slow machine a client may
// give one up that the server executes afterwards.
func (m *taskMachine) finish(r *rapid.T) {
	m.proxy.Refuse()
	m.do(r, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
	m.proxy.Accept()
}

// lastNumber returns the last number that the server has drawn, as a time.
func (m *taskMachine) lastNumber(r *rapid.T) time.Time {
	n, err := redis.Int64(m.conn.Do("GET", taskKeys+"n"))
	if errors.Is(err, redis.ErrNil) {
		return time.Time{}
	}
	require.NoError(r, err)
	return time.UnixMicro(n)
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
	m.eval(r, script.TaskReceive, "collector:1", receiveArgs("collector:1", m.collected, 0, "")...)
	m.model.collect(m.now(), m.started(r))
}

// started reports whether the server has started within a lease, by its clock.
func (m *taskMachine) started(r *rapid.T) bool {
	info, err := redis.String(m.conn.Do("INFO", "server"))
	require.NoError(r, err)
	_, line, _ := strings.Cut(info, "uptime_in_seconds:")
	line, _, _ = strings.Cut(line, "\r")
	seconds, err := strconv.Atoi(line)
	require.NoError(r, err)
	return seconds >= 0 && time.Duration(seconds)*time.Second < modelTaskTime
}

func payloadOf(id string) string { return fmt.Sprint("of ", id) }
