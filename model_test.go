package relock

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/scripttest"
)

// modelOwner is an owner of a client, as the model sees it: two clients may use one name for two owners.
type modelOwner struct {
	client *Client
	name   string
}

// counted is what the model knows of a lock.
type counted struct {
	key   string
	plain bool
	owner modelOwner
	holds []Hold // the levels that owner has
	token int64  // of the last hold
}

// modelDepth is how deep an owner goes into a reentrant lock.
const modelDepth = 4

// Every script is executed twice, in a long random run of several owners of several keys: each call says, and the server has, what a
// model without any fault says. In several runs at once, each of which waits for one answer after the other.
func TestDoubledRequestsAgainstAModel(t *testing.T) {
	t.Parallel()
	const runs = 4
	requests := 1600
	if allCells() {
		requests = 5000
	}
	for n := range runs {
		t.Run(fmt.Sprint(n), func(t *testing.T) { doubledRequestsAgainstAModel(t, requests/runs) })
	}
}

func doubledRequestsAgainstAModel(t *testing.T, requests int) {
	t.Parallel()
	s := newFaultServer(t)
	proxy := faults.Start(t, s.Network, s.Address)
	scripts := faults.Command("EVALSHA")
	proxy.On(scripts, faults.Every, faults.Double)
	behind := &redistest.Server{Network: proxy.Network, Address: proxy.Address}
	first := newTestClient(t, behind)
	second := sibling(t, behind, first)
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
		bench.Key = keyOf(first, m.key)
		require.Equal(t, m.atServer(), storedIn(bench.State()), "step %d", step)
	}
}

// lock is a new object each time. A plain one draws a token, so that a script takes it.
func (m *counted) lock(who modelOwner) anyLock {
	if m.plain {
		return NewRedisLock(m.key, who.client, WithFencing())
	}
	return owned(who.name, NewReentrantLock(m.key, who.client))
}

func (m *counted) heldBy(who modelOwner) bool { return len(m.holds) > 0 && m.owner == who }

func (m *counted) acquire(t *testing.T, who modelOwner) {
	t.Helper()
	if m.heldBy(who) && !m.plain && len(m.holds) == modelDepth {
		return
	}
	h, err := m.lock(who).TryAcquire(t.Context())
	if len(m.holds) > 0 && (m.plain || !m.heldBy(who)) {
		require.ErrorIs(t, err, ErrLockAcquiredByOthers)
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
		require.ErrorIs(t, m.lock(who).Unlock(t.Context()), ErrNotHeld)
		return
	}
	newest := len(m.holds) - 1
	require.NoError(t, m.holds[newest].Unlock(t.Context()))
	m.holds = m.holds[:newest]
}

// atServer is what the server has to have: the owner's levels, or that a plain lock is held.
func (m *counted) atServer() map[string]string {
	switch {
	case len(m.holds) == 0:
		return map[string]string{}
	case m.plain:
		return map[string]string{"plain": "held"}
	}
	return map[string]string{m.owner.client.engine.Identity.Named(m.owner.name): fmt.Sprint(len(m.holds))}
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
