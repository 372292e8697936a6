package lua_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/test/redistest"
)

// At the old server of a half moved slot a script may not use a key that it has
// deleted. A claim that would replace the reservation is refused first.
func TestClaimWhileASlotMoves(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, 2, 0)
	const tag = "k" // of the keys of a bench
	from, to := c.Servers[0], c.Servers[1]
	if c.MasterOf(t, tag) != from {
		from, to = to, from
	}
	first, next := WaitNamed(sharded, 1, "rf"), WaitNamed(sharded, 2, "rf")
	b := NewHeld(t, from, WaitNamed("c9", 1, "rf"))
	b.Live(sharded)
	b.Line(time.Millisecond, first, next)
	b.RequireDone(WaitNamed("c9", 1, "rf").Release())
	move := c.BeginMove(t, c.SlotOf(t, tag), to)
	_, err := b.Try(first.Claim())
	require.ErrorContains(t, err, "TRYAGAIN relock: take")
	require.Contains(t, b.Content(b.Key), "relock/1|w|"+string(first), "it is reserved as before")
	move.Finish(t)
}

// A fair waiter whose subscription is not seen keeps its turn until its
// heartbeat is stale: its slot may have moved, or its master been replaced.
func TestHandOffAfterASlotHasMoved(t *testing.T) {
	for name, client := range map[string]string{"of a Cluster": sharded, "of one server": "c1"} {
		for age, keeps := range map[time.Duration]bool{2500 * time.Millisecond: true, 2501 * time.Millisecond: false} {
			t.Run(fmt.Sprint(name, " ", age), func(t *testing.T) {
				first, next := WaitNamed(client, 1, "pf"), WaitNamed("c2", 1, "pf")
				holder := WaitNamed("c9", 1, "pf")
				b := NewHeld(t, server, holder)
				b.Show(map[string]Heartbeat{client: {Age: age, Counted: 1}, "c2": {Counted: 0}})
				b.Line(time.Millisecond, first, next)
				b.RequireDone(holder.Release())
				if keeps {
					b.RequireHandedTo(first, []Wait{next})
				} else {
					b.RequireHandedTo(next, nil)
				}
			})
		}
	}
}
