package sentinel

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

// One sentinel that does not know the master, or refuses the password, ends no
// wait while the others hang or are dead. Two of three do.
func TestSentinelThatSaysNoIsOutvoted(t *testing.T) {
	t.Parallel()
	s := redistest.StartSentinels(t, redistest.NoFailover)
	one, two, three := s.Sentinels[0], s.Sentinels[1], s.Sentinels[2]
	one.Do(t, "SENTINEL", "REMOVE", redistest.SentinelName)
	two.Pause(t)
	three.Kill(t)
	log := &testkit.Log{}
	logged := func() *Sentinel {
		p := sentinelOf(t, s)
		p.limit = redistest.NoFailover / 3 // each look takes that long, since one hangs
		p.LogTo(log.Logger())
		return p
	}

	p := logged()
	_, err := p.Master(t.Context())
	require.True(t, lockspec.IsRetryable(err), err)
	log.RequireWarned(t, err, one.Address+": knows no master", two.Address+": read", three.Address+": dial")
	for range 3 {
		require.Error(t, p.Refresh(t.Context()))
	}
	require.Equal(t, 1, log.Lines("level=WARN"), "a line a minute")
	two.Resume(t)
	awaitMaster(t, p, s.Servers[0])

	one.Do(t, "ACL", "SETUSER", "default", "resetpass", ">another")
	two.Pause(t)
	log = &testkit.Log{}
	_, err = logged().Master(t.Context())
	require.True(t, lockspec.IsRetryable(err), err)
	log.RequireWarned(t, err, one.Address+": permission denied", two.Address+": read", three.Address+": dial")

	two.Resume(t)
	two.Do(t, "SENTINEL", "REMOVE", redistest.SentinelName)
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Patience/3)
	defer cancel()
	_, err = logged().Master(ctx)
	require.False(t, lockspec.IsRetryable(err), err)
	require.ErrorContains(t, err, three.Address+": dial")
}
