package proof

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/redistest"
)

// TestStateMachine makes random calls of reentrant locks, by several owners on
// two clients. Meanwhile the server's clock jumps, its scripts are flushed, and
// it is killed and restarted from its append-only file. Clients crash, late
// copies of requests arrive, and an operator deletes keys. After each step, the
// server's keys and the holds are compared with a model.
//
// A failure prints the shortest sequence that was found, and a seed.
func TestStateMachine(t *testing.T) {
	t.Parallel()
	const servers = 2 // the runs wait most of the time
	for i := range servers {
		t.Run(fmt.Sprint("server ", i), func(t *testing.T) {
			t.Parallel()
			// The file is written before an answer is sent. Only a power cut
			// needs it on the disk, and a busy disk takes seconds.
			b := newBench(t, appendOnly("no")...)
			defer b.report(t)
			rapid.Check(t, b.run)
			if defaultChecks {
				require.GreaterOrEqual(t, b.total(), pick(10_000, 100), "steps")
			}
		})
	}
}

// defaultChecks reports whether the command line leaves the number of runs,
// each of some 50 steps, to the tests.
var defaultChecks bool

// setRapid sets the flags of rapid that the command line leaves at their
// defaults. They are the process's, so all machines share them.
func setRapid() error {
	for name, value := range map[string]string{
		"rapid.nofailfile": "true", "rapid.steps": "50",
		"rapid.checks": pick("260", "10"), "rapid.shrinktime": pick("30s", "3s"),
	} {
		f := flag.Lookup(name)
		if f.Value.String() != f.DefValue {
			continue
		}
		defaultChecks = defaultChecks || name == "rapid.checks"
		if err := flag.Set(name, value); err != nil {
			return err
		}
	}
	return nil
}

// bench is what all runs of a machine share.
type bench struct {
	t       *testing.T
	server  *redistest.Server
	clock   *redistest.Clock
	scripts map[string]string
	conn    redis.Conn // of the test's own

	runs, late    int
	steps         map[string]int
	firstFailedAt int // the step, counted over all runs
}

func newBench(t *testing.T, args ...string) *bench {
	b := &bench{t: t, steps: map[string]int{}, scripts: scriptSources()}
	b.server, b.clock = redistest.StartWithClock(t, args...)
	b.connect()
	t.Cleanup(func() { _ = b.conn.Close() })
	return b
}

func (b *bench) connect() { b.conn = b.server.Dial(b.t) }

func (b *bench) total() (n int) {
	for _, count := range b.steps {
		n += count
	}
	return n
}

func (b *bench) report(t *testing.T) {
	t.Logf("%d steps in %d runs, %d of them cut short as the machine was slow", b.total(), b.runs, b.late)
	for _, name := range slices.Sorted(maps.Keys(b.steps)) {
		t.Logf("%7d %s", b.steps[name], name)
	}
	require.LessOrEqual(t, 2*b.late, b.runs, "most runs were held up: this machine is too slow to judge")
	if b.firstFailedAt > 0 {
		t.Logf("first failure in step %d", b.firstFailedAt)
	}
}

// machineT keeps the first failure, which rapid forgets if it cannot repeat it.
// It ends a run that the machine has delayed so much that the model cannot
// follow. report counts such runs, and fails if there are many.
type machineT struct {
	*rapid.T
	*bench
	m *machine
}

func (t *machineT) Errorf(format string, args ...any) {
	if t.m.isLate() {
		t.t.Logf("held up for %v, then: %s", time.Since(t.m.begun), fmt.Sprintf(format, args...))
		t.m.giveUp()
		panic(heldUp)
	}
	t.hopeless(format, args...)
}

// heldUp is the panic that ends a run, without a failure of the test.
const heldUp = "the machine was held up for too long"

// endIfHeldUp is deferred by a run.
func (m *machine) endIfHeldUp() {
	if !m.slow {
		return
	}
	if r := recover(); r != nil && r != heldUp {
		panic(r)
	}
}

// hopeless is a failure for which no machine can be too slow.
func (t *machineT) hopeless(format string, args ...any) {
	if t.firstFailedAt == 0 {
		t.firstFailedAt = t.total() + 1
		t.t.Logf("first failure, in the last of: %s\n%s", strings.Join(t.m.trail, "; "), fmt.Sprintf(format, args...))
	}
	t.T.Errorf(format, args...)
}

// run is one sequence of calls, from empty to empty.
func (b *bench) run(r *rapid.T) {
	b.runs++
	m := &machine{
		bench: b, begun: time.Now(), keys: map[string]*modelKey{}, held: map[modelOwner]*modelGrant{}, ids: map[string]bool{},
		stale: map[int]bool{}, results: make(chan machineResult, 100),
	}
	defer m.close()
	defer m.endIfHeldUp()
	in := func(f func(*machineT)) func(*rapid.T) { return func(r *rapid.T) { f(&machineT{r, b, m}) } }
	in(m.begin)(r)
	r.Repeat(map[string]func(*rapid.T){"step": in(m.step), "": in(m.checkInTime)})
	in(m.finish)(r)
}

const (
	machineClients = 2
	machinePrefix  = "machine:"
	// machineTime limits the calls of a run. Leases are so much longer that
	// none expires, and none is renewed except by the test.
	machineTime = 8 * time.Second
	// machineGap is how far every expiry stays away from the time of a call.
	machineGap = 12 * time.Second
)

var (
	machineOwners = []string{"ann", "bob"}
	machineLocks  = []string{"one", "two", "three"}
	machineLeases = []time.Duration{45 * time.Second, 100 * time.Second, 300 * time.Second}
)

// machine is one run.
type machine struct {
	*bench
	begun   time.Time
	clients []*relock.Client
	keys    map[string]*modelKey
	held    map[modelOwner]*modelGrant
	grants  []*modelGrant // all that ever were
	past    []*modelLevel // unlocked, or of a client that was closed
	ids     map[string]bool
	trail   []string
	slow    bool         // it was given up
	stale   map[int]bool // clients whose connections a restart has cut, and that may not know yet

	waits   []*machineWait
	results chan machineResult
	waiters sync.WaitGroup
}

// begin empties the server and makes the clients.
func (m *machine) begin(t *machineT) {
	m.do(t, "FLUSHALL")
	m.clock.Advance(m.t, -m.clock.Offset())
	for _, name := range machineLocks {
		m.keys[name] = &modelKey{}
	}
	for range machineClients {
		m.clients = append(m.clients, m.newClient(t))
	}
}

func (b *bench) newClient(t require.TestingT) *relock.Client {
	c, err := relock.NewClient(b.server.Network, b.server.Address, "", relock.WithKeyPrefix(machinePrefix))
	require.NoError(t, err)
	return c
}

func (b *bench) do(t require.TestingT, command string, args ...any) any {
	reply, err := b.conn.Do(command, args...)
	require.NoError(t, err, command)
	return reply
}

// isLate reports whether the run has taken so long that leases may expire or be
// renewed. It makes no more calls then.
func (m *machine) isLate() bool { return time.Since(m.begun) > machineTime }

// giveUp counts the run as one that was too slow.
func (m *machine) giveUp() {
	if !m.slow {
		m.slow = true
		m.late++
	}
}

// close ends what is left of a run, however it ended.
func (m *machine) close() {
	for _, w := range m.waits {
		w.cancel()
	}
	for _, c := range m.clients {
		_ = c.Close() // checked where it matters
	}
	m.waiters.Wait()
}

// finish releases all holds, and checks that no key is left.
func (m *machine) finish(t *machineT) {
	if m.isLate() {
		m.giveUp()
		return
	}
	m.cancelAll(t)
	for _, g := range slices.Clone(m.grants) {
		for m.held[g.owner] == g {
			m.unlock(t, g.owner, g.newest(), func() error { return m.lock(g.owner).Unlock(ownerContext(g.owner)) })
		}
	}
	m.check(t)
	m.advance(time.Hour) // for what crashed clients have left, and for others' keys
	for _, k := range m.keys {
		*k = modelKey{}
	}
	m.check(t)
	require.Empty(t, m.do(t, "KEYS", "*"), "keys are left")
}

func ownerContext(o modelOwner) context.Context {
	return relock.ContextWithOwner(context.Background(), o.name)
}

func (m *machine) lock(o modelOwner, opts ...relock.LockOption) *relock.ReentrantLock {
	return relock.NewReentrantLock(o.lock, m.clients[o.client], opts...)
}

func machineKey(lock string) string { return fmt.Sprintf("%s{%s}", machinePrefix, lock) }
