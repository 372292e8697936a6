package proof

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/faults"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/redistest"
)

// electionLease is long enough for processes that start beside a leader on a
// busy machine.
const electionLease = 2 * time.Second

// candidateRole campaigns. Arguments: network, address, mode.
func candidateRole(self *faults.Self, client *relock.Client) error {
	opts := []relock.LockOption{relock.WithWatchdog(electionLease)}
	if self.Args[2] == fairMode {
		opts = append(opts, relock.WithFair())
	}
	locker, err := relock.NewLocker(client, opts...)
	if err != nil {
		return err
	}
	return locktest.Campaign(self, locker, "k")
}

// Three processes campaign. Their leaders are killed, stopped, cut off, ended
// and deposed. No two lead together, and the next one leads in time.
func TestElectionStorm(t *testing.T) {
	t.Parallel()
	together(t, waitModes, func(t *testing.T, mode string) {
		server := redistest.Start(t)
		operator, spawned := newParentClient(t, server), 0
		e := &locktest.Election{T: t, Lease: electionLease}
		e.Spawn = func() *locktest.Candidate {
			p := faults.Start(t, server.Network, server.Address)
			c := &locktest.Candidate{
				Child: faults.Spawn(t, "candidate", p.Network, p.Address, mode), Cut: p.Refuse, Mend: p.Accept,
			}
			if spawned++; spawned%2 == 0 {
				c.Cut, c.Mend = p.Stall, p.Resume
			}
			return c
		}
		e.Force = func() {
			if err := operator.ForceUnlock(t.Context(), "k", "moves"); !errors.Is(err, relock.ErrNotHeld) {
				require.NoError(t, err)
			}
		}
		e.Hold(pick(200, 5))
	})
}
