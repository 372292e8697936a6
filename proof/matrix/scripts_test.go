package matrix_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/locktest"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/scripttest"
)

// modelOwner is an owner of a client, as the model sees it: two clients may use
// one name for two owners.
type modelOwner struct {
	client *relock.Client
	name   string
}

// counted is what the model knows of a lock.
type counted struct {
	key   string
	plain bool
	owner modelOwner
	holds []relock.Hold // the levels that owner has
	token int64         // of the last hold
}

// modelDepth is how deep an owner goes into a reentrant lock.
const modelDepth = 4

// Every script is executed twice, in a long random run of several owners of
// several keys: each call says, and the server has, what a model without any
// fault says. In several runs together, each of which waits for one answer
// after the other.
func TestDoubledRequestsAgainstAModel(t *testing.T) {
	t.Parallel()
	const runs = 4
	requests := 1600
	if locktest.FullLength() {
		requests = 5000
	}
	for n := range runs {
		t.Run(fmt.Sprint(n), func(t *testing.T) { doubledRequestsAgainstAModel(t, requests/runs) })
	}
}

func doubledRequestsAgainstAModel(t *testing.T, requests int) {
	t.Parallel()
	s := locktest.NewServerWithScripts(t)
	proxy := faults.Start(t, s.Network, s.Address)
	scripts := faults.Command("EVALSHA")
	proxy.On(scripts, faults.Every, faults.Double)
	behind := &redistest.Server{Network: proxy.Network, Address: proxy.Address}
	first := locktest.NewTestClient(t, behind)
	second := locktest.Sibling(t, behind, first)
	owners := []modelOwner{{first, "a"}, {first, "b"}, {second, "a"}}
	model := []*counted{{key: "one"}, {key: "two"}, {key: "three"}, {key: "plain", plain: true}}
	bench := scripttest.NewBench(t, s)

	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for step := 0; step%100 != 0 || proxy.Count(scripts) < requests; step++ {
		m, who := model[random.IntN(len(model))], owners[random.IntN(len(owners))]
		switch random.IntN(5) {
		case 0, 1:
			m.unlock(t, who)
		case 2:
			m.extend(t, who)
		default:
			m.acquire(t, who)
		}
		bench.Key = locktest.KeyOf(first, m.key)
		require.Equal(t, m.atServer(), storedIn(bench.State()), "step %d", step)
	}
}

// lock is a new object each time. A plain one draws a token, so that a script
// takes it.
func (m *counted) lock(who modelOwner) locktest.AnyLock {
	if m.plain {
		return relock.NewRedisLock(m.key, who.client, relock.WithFencing())
	}
	return locktest.Owned(who.name, relock.NewReentrantLock(m.key, who.client))
}

func (m *counted) heldBy(who modelOwner) bool { return len(m.holds) > 0 && m.owner == who }

func (m *counted) acquire(t *testing.T, who modelOwner) {
	t.Helper()
	if m.heldBy(who) && !m.plain && len(m.holds) == modelDepth {
		return
	}
	h, err := m.lock(who).TryAcquire(t.Context())
	if len(m.holds) > 0 && (m.plain || !m.heldBy(who)) {
		require.ErrorIs(t, err, relock.ErrLockAcquiredByOthers)
		return
	}
	require.NoError(t, err)
	if m.plain {
		require.Greater(t, h.Fence(), m.token)
	}
	m.owner, m.holds, m.token = who, append(m.holds, h), h.Fence()
}

// extend asks for more than is left, which is a renewal.
func (m *counted) extend(t *testing.T, who modelOwner) {
	t.Helper()
	if m.heldBy(who) {
		newest := m.holds[len(m.holds)-1]
		require.NoError(t, newest.Extend(t.Context(), time.Minute))
		require.Greater(t, time.Until(newest.ValidUntil()), lockspec.DefaultLease)
	}
}

func (m *counted) unlock(t *testing.T, who modelOwner) {
	t.Helper()
	if !m.heldBy(who) {
		require.ErrorIs(t, m.lock(who).Unlock(t.Context()), relock.ErrNotHeld)
		return
	}
	newest := len(m.holds) - 1
	require.NoError(t, m.holds[newest].Unlock(t.Context()))
	m.holds = m.holds[:newest]
}

// atServer is what the server has to have: the owner's levels, or that a plain
// lock is held.
func (m *counted) atServer() map[string]string {
	switch {
	case len(m.holds) == 0:
		return map[string]string{}
	case m.plain:
		return map[string]string{"plain": "held"}
	}
	return map[string]string{locktest.Engine(m.owner.client).Identity.Named(m.owner.name): fmt.Sprint(len(m.holds))}
}

// storedIn are the counts in a hash, or that a plain lock is held.
func storedIn(s scripttest.KeyState) map[string]string {
	stored := map[string]string{}
	switch content := s.Content.(type) {
	case string:
		stored["plain"] = "held"
	case map[string]string:
		for field, value := range content {
			if strings.Contains(field, ":") {
				stored[field] = value
			}
		}
	}
	return stored
}

// A clock that is set back while a script runs, at any of its readings, leaves
// no key without an expiry. Redis before 7.2 takes one that was set after the
// jump for over: what the script writes to the key then makes it anew.
func TestClockIsSetBackWithinAScript(t *testing.T) {
	t.Parallel()
	all := scriptsWithExpiry()
	names, least := slices.Sorted(maps.Keys(all)), int64(500)
	if !locktest.FullLength() {
		rand.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		names, least = names[:len(names)/6], 50
		t.Logf("a sixth of the scripts: %v", names)
	}
	var jumps atomic.Int64
	var cells []locktest.Subtest
	for some := range slices.Chunk(names, len(names)/4+1) {
		s, clock := redistest.StartWithClock(t)
		cells = append(cells, locktest.Subtest{Name: "from " + some[0], Run: func(t testing.TB) {
			b := scripttest.NewBench(t, s)
			for _, name := range some {
				jumps.Add(int64(b.SetBackWithin(clock, name, all[name])))
			}
		}})
	}
	locktest.RunTogether(t, cells)
	require.Greater(t, jumps.Load(), least)
}

// scriptsWithExpiry are scripts that set an expiry, each the last of its list,
// behind what makes its case.
func scriptsWithExpiry() map[string][]script.Call {
	taken := script.Call{Script: script.ReentrantAcquire, Args: []any{"o", "h", 60_000, "info"}}
	all := map[string][]script.Call{
		"acquire":           {{Script: script.Acquire.Fenced, Args: []any{scripttest.Plain1, "", 60_000}}},
		"reentrant acquire": {{Script: script.ReentrantAcquire.Fenced, Args: []any{"o", "h", 60_000, "info"}}},
		"reentrant enter":   {taken, {Script: script.ReentrantEnter, Args: []any{"o", "h", 2, 2, 3_600_000}}},
		"reentrant renew":   {taken, {Script: script.ReentrantRenew, Args: []any{"h", 3_600_000}}},
		"redlock, taken":    {{Script: script.Acquire, Args: []any{scripttest.Plain2, "", 60_000}}, {Script: script.RedLockWait, Args: []any{scripttest.Plain1, 60_000, 0, "c1:1:q", 400}}},
	}
	for _, letters := range []string{"pu", "pf", "ru", "rf"} {
		first, w, next := scripttest.WaitNamed("c9", 1, letters), scripttest.WaitNamed("c1", 1, letters), scripttest.WaitNamed("c1", 2, letters)
		kept := script.Call{Script: script.Release, Args: []any{first.Body(), 1000, "relock/1|k|kept"}}
		if letters[0] == 'r' {
			kept = script.Call{Script: script.ReentrantRelease, Args: []any{first.Body(), first.Hold(), 0, 2, 1000}}
		}
		all[letters+" try"] = []script.Call{first.Try()}
		all[letters+" kept"] = []script.Call{first.Try(), kept}
		all[letters+" enqueue"] = []script.Call{first.Try(), w.Enqueue()}
		all[letters+" enqueue another"] = []script.Call{first.Try(), w.Enqueue(), next.Enqueue()}
		all[letters+" poll"] = []script.Call{first.Try(), w.Enqueue(), scripttest.PollAs("c1")}
		all[letters+" poll, put back"] = []script.Call{first.Try(), scripttest.PollAs("c1", string(w), "1000")}
		all[letters+" release"] = []script.Call{first.Try(), w.Enqueue(), scripttest.PollAs("c1"), first.Release()}
	}
	for _, letters := range []string{"su", "sf", "wu", "wf"} {
		first, w := scripttest.RWWaitNamed("c9", 1, "w"+letters[1:]), scripttest.RWWaitNamed("c1", 1, letters)
		all[letters+" try"] = []script.Call{first.Try()}
		all[letters+" enter"] = []script.Call{first.Try(), first.Enter(1, 1, 2, time.Hour)}
		all[letters+" renew"] = []script.Call{first.Try(), first.Renew(time.Hour)}
		all[letters+" downgrade"] = []script.Call{first.Try(), first.Enter(1, 1, 2, time.Hour), w.Enqueue(), first.Leave(1, 0, 3)}
		all[letters+" enqueue"] = []script.Call{first.Try(), w.Enqueue()}
		all[letters+" poll"] = []script.Call{first.Try(), w.Enqueue(), scripttest.RWPollAs("c1")}
		all[letters+" poll, put back"] = []script.Call{first.Try(), scripttest.RWPollAs("c1", string(w.Wait), "1000")}
		all[letters+" release"] = []script.Call{first.Try(), w.Enqueue(), scripttest.RWPollAs("c1"), first.Release()}
	}
	return all
}
