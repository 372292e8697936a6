package cli

import (
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/relock-go/relock"
)

// As many commands run together as there are permits, and the next one after
// that does not. A permit is free when its command has ended.
func TestPermits(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	own := []string{"--permits", "2", "-n", "key"}
	begin := func() *process {
		p := b.run(append(own, "sh", "-c", `trap "exit 0" TERM; sleep 1000 & echo ready; while :; do wait; done`)...)
		p.says("ready")
		return p
	}
	one, two := begin(), begin()
	require.Equal(t, codeBusy, b.run(append(own, "true")...).code())
	info, err := b.client().Inspect(t.Context(), "key")
	require.NoError(t, err)
	require.Equal(t, relock.StateHeld, info.State)
	require.Len(t, info.Readers, 2)
	one.signal(unix.SIGTERM)
	require.Zero(t, one.code())
	require.Zero(t, b.run(append(own, "true")...).code())
	two.signal(unix.SIGTERM)
	require.Zero(t, two.code())
}

// Holders of a semaphore have no order, so there is no token. That of an outer
// relock is for another lock.
func TestPermitHasNoFence(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := b.start(b.shell(`RELOCK_FENCE=7; export RELOCK_FENCE; "$@"`, "--permits", "2", "key", "sh", "-c",
		`echo "<$RELOCK_FENCE>"`))
	require.Zero(t, p.code())
	require.Equal(t, "<>\n", p.out.String())
}
