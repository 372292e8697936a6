package relock

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/redistest"
)

// modelOwner is an owner of a client, as the model sees it: two clients may use one name for two owners.
type modelOwner struct {
	client *Client
	name   string
}

// counted is what the model knows of a key.
type counted struct {
	owner  modelOwner
	levels int
}

// Every script is executed twice, in a long random run of several owners of several keys: each call says, and the server has, what a
// model without any fault says.
func TestDoubledRequestsAgainstAModel(t *testing.T) {
	t.Parallel()
	const steps, keys, depth = 5000, 3, 4
	s := newFaultServer(t)
	proxy := faults.Start(t, s.Network, s.Address)
	proxy.On(faults.Command("EVALSHA"), faults.Every, faults.Double)
	behind := &redistest.Server{Network: proxy.Network, Address: proxy.Address}
	first := newTestClient(t, behind)
	second := sibling(t, behind, first)
	owners := []modelOwner{{first, "a"}, {first, "b"}, {second, "a"}}
	bench := newScriptBench(t, s)

	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	model := make([]counted, keys)
	for step := range steps {
		n, who := random.IntN(keys), owners[random.IntN(len(owners))]
		key, held := fmt.Sprint(n), &model[n]
		lock := NewReentrantLock(key, who.client, WithOwner(who.name))
		ours := held.levels > 0 && held.owner == who
		if random.IntN(2) == 0 {
			err := lock.Unlock(t.Context())
			if ours {
				require.NoError(t, err, step)
				held.levels--
			} else {
				require.ErrorIs(t, err, ErrNotHeld, step)
			}
		} else if !ours || held.levels < depth {
			err := lock.TryLock(t.Context())
			if ours || held.levels == 0 {
				require.NoError(t, err, step)
				held.owner = who
				held.levels++
			} else {
				require.ErrorIs(t, err, ErrLockAcquiredByOthers, step)
			}
		}
		bench.key = keyOf(first, key)
		require.Equal(t, held.atServer(), ownersOf(bench.state()), "step %d", step)
	}
}

// atServer is what the server has to have.
func (c counted) atServer() map[string]string {
	if c.levels == 0 {
		return map[string]string{}
	}
	return map[string]string{c.owner.client.identity.named(c.owner.name): fmt.Sprint(c.levels)}
}

// ownersOf are the counts in a hash.
func ownersOf(s keyState) map[string]string {
	owners := map[string]string{}
	fields, _ := s.content.(map[string]string)
	for field, value := range fields {
		if strings.Contains(field, ":") {
			owners[field] = value
		}
	}
	return owners
}
