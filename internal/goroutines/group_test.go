package goroutines

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/relock-go/relock/internal/test/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestWait(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		var g Group
		start := time.Now()
		require.True(t, g.Start(func() { time.Sleep(time.Hour) }))
		g.Wait()
		require.Equal(t, time.Hour, time.Since(start))
		require.False(t, g.Start(func() { panic("started after Wait") }))
		g.Wait()
	})
}

func TestWaitFor(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		var g Group
		start := time.Now()
		require.True(t, g.Start(func() { time.Sleep(time.Hour) }))
		g.WaitFor(time.Second)
		require.Equal(t, time.Second, time.Since(start), "it waits beyond the limit")
		require.False(t, g.Start(func() { panic("started after WaitFor") }))
		g.WaitFor(2 * time.Hour)
		require.Equal(t, time.Hour, time.Since(start), "it does not end with the last goroutine")
	})
}
