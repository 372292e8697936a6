package queue_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/faults"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/queue"
)

func listed(t testing.TB, c *relock.Client) (names []string) {
	t.Helper()
	for name, err := range queue.List(t.Context(), c) {
		require.NoError(t, err)
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Queues of the client's prefix are listed once each: those with tasks, dead
// letters or pauses.
func TestList(t *testing.T) {
	s := redistest.Start(t)
	const prefix = `q*[a]\:`
	c := newClient(t, s, relock.WithKeyPrefix(prefix))
	require.Empty(t, listed(t, c))
	named := func(c *relock.Client, name string) *queue.Queue {
		q, err := queue.New(name, c)
		require.NoError(t, err)
		return q
	}
	want := []string{"a}:p", "dead", "mails", "paused"}
	for _, name := range want[:3] {
		enqueue(t, named(c, name), "", "1")
	}
	require.NoError(t, receive(t, named(c, "dead"), "1").DeadLetter(t.Context(), nil))
	require.NoError(t, named(c, "mails").PauseKey(t.Context(), "k"))
	require.NoError(t, named(c, "paused").Pause(t.Context()))
	enqueue(t, named(newClient(t, s), "of another prefix"), "", "1")
	enqueue(t, named(newClient(t, s, relock.WithKeyPrefix(`qx a\:`)), "of a similar prefix"), "", "1")
	h := hold(t, newLocker(t, c), "queue:{lock}:p")
	s.Do(t, "SET", prefix+"queue:{}:p", "no queue")
	require.Equal(t, want, listed(t, c))
	require.NoError(t, h.Unlock(t.Context()))
	for i := range 1000 {
		want = append(want, fmt.Sprint("many ", i))
		enqueue(t, named(c, want[len(want)-1]), "", "1")
	}
	slices.Sort(want)
	require.Equal(t, want, listed(t, c))
	n := 0
	for _, err := range queue.List(t.Context(), c) {
		require.NoError(t, err)
		if n++; n == 2 {
			break
		}
	}
	require.Equal(t, 2, n)
	for _, name := range want {
		q := named(c, name)
		require.NoError(t, q.Resume(t.Context()))
		require.NoError(t, q.ResumeKey(t.Context(), "k"))
		if name != "paused" {
			require.NoError(t, q.Remove(t.Context(), "1"))
		}
	}
	require.Empty(t, listed(t, c))

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, c.Close())
	for want, list := range map[error]func() (context.Context, *relock.Client){
		relock.ErrClosed:  func() (context.Context, *relock.Client) { return t.Context(), c },
		relock.ErrInvalid: func() (context.Context, *relock.Client) { return t.Context(), nil },
		context.Canceled:  func() (context.Context, *relock.Client) { return ctx, newClient(t, s) },
	} {
		for _, err := range queue.List(list()) {
			require.ErrorIs(t, err, want)
		}
	}
}

// The queues of all servers are listed, and one server's error ends the list.
func TestListOfTwoServers(t *testing.T) {
	s, second := redistest.StartTCP(t), redistest.StartTCP(t)
	p := faults.Start(t, second.Network, second.Address)
	c := locktest.Routed(t, &redistest.Server{Network: p.Network, Address: p.Address}, s)
	var want []string
	for i := range 20 {
		name := fmt.Sprint("queue ", i)
		q, err := queue.New(name, c)
		require.NoError(t, err)
		enqueue(t, q, "", "1")
		want = append(want, name)
	}
	slices.Sort(want)
	require.Equal(t, want, listed(t, c))
	p.On(func(args []string) bool { return args[0] == "SCAN" }, 1, faults.ErrorLine("NOPERM no permissions"))
	failed := false
	for _, err := range queue.List(t.Context(), c) {
		if err != nil {
			require.ErrorIs(t, err, relock.ErrDenied)
			failed = true
		}
	}
	require.True(t, failed)
}
