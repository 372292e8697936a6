package outage

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/goroutines"
	"github.com/relock-go/relock/internal/test/testkit"
)

// A handler that blocks delays no call, and later lines follow in their order.
func TestHandlerThatBlocks(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		var group goroutines.Group
		h := &blocking{release: make(chan struct{})}
		l := New(slog.New(slog.NewTextHandler(h, nil)), func(f func()) { group.Start(f) })
		begun := l.Begin()
		c := &begun
		time.Sleep(Patience)
		l.Failed(c, "h:1", 1, errRefused)
		l.Answered(c, nil)
		close(h.release)
		group.Wait()
		text := h.text.String()
		require.Less(t, strings.Index(text, warns), strings.Index(text, again), text)
	})
}

type blocking struct {
	release chan struct{}
	text    strings.Builder
}

func (b *blocking) Write(p []byte) (int, error) {
	if b.text.Len() == 0 {
		<-b.release
	}
	return b.text.Write(p)
}

// A call without failures takes no mutex, and allocates nothing.
func TestCallWithoutFailures(t *testing.T) {
	l := New(slog.New(slog.DiscardHandler), func(func()) {})
	l.mu.Lock()
	defer l.mu.Unlock()
	require.Zero(t, testing.AllocsPerRun(100, func() {
		c := l.Begin()
		l.Answered(&c, func() string { return "h:1" })
		l.End(&c, 0)
	}))
}

// Servers that are not used any more are forgotten.
func TestServersAreForgotten(t *testing.T) {
	onBench(t, func(b *bench) {
		for range 100 {
			c := b.begin()
			time.Sleep(memory)
			b.fail(time.Now().String(), c)
			b.end(c, 1)
		}
		b.answer("h:1", &Call{})
		time.Sleep(memory)
		b.answer("h:1", &Call{})
		require.Empty(t, b.log.servers)
		require.Zero(t, b.log.open.Load())
	})
}
