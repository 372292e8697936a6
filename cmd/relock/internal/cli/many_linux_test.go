package cli

import (
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/test/testkit"
	"github.com/relock-go/relock/queue"
	"github.com/relock-go/relock/relockweb"
)

// fill gives the server so many keys of another program.
func (b *bench) fill(keys int) {
	b.Helper()
	const together = 10_000
	for from := 0; from < keys; from += together {
		b.server.Do(b, "EVAL", `for i = ARGV[1], ARGV[2] do redis.call('SET', 'session:' .. i, 'x') end`,
			0, from+1, from+together)
	}
}

// Beside a million keys of other programs, List, ls and the page show the locks
// and queues within 2 s. The page says what it could not read by then.
func TestManyForeignKeys(t *testing.T) {
	keys := 20_000
	if *long {
		keys = 1_000_000
	}
	b := newBench(t)
	b.fill(keys)
	for _, key := range []string{"orders/42", "stock/9"} {
		b.hold(key)
	}
	b.enqueue(b.queue(), queue.Task{ID: "mail-1"})
	c := b.client()
	const promise = 2 * time.Second
	timed := func(what string, f func() string) string {
		t.Helper()
		watch, start := testkit.NewStopwatch(t), time.Now()
		text := f()
		took := time.Since(start).Round(time.Millisecond)
		load, _ := os.ReadFile("/proc/loadavg") // "" is that it is not known
		t.Logf("%d keys: %s took %v, load %.4s", keys, what, took, load)
		watch.Within(promise+100*time.Millisecond, what) // the page reads for as long as it may
		return text
	}
	require.Len(t, timed("List", func() (names string) {
		for info, err := range c.List(t.Context(), "*") {
			require.NoError(t, err)
			names += info.Key[:1]
		}
		return names
	}), 2)
	out := timed("ls", func() string {
		return b.succeeds("--redis", urlOf(b.server.Network, b.server.Address), "ls")
	})
	require.Equal(t, 1+2, strings.Count(out, "\n"), out)
	web := relockweb.Handler(c)
	page := timed("the page", func() string {
		w := httptest.NewRecorder()
		web.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
		return w.Body.String()
	})
	if all := !strings.Contains(page, "Not all"); all || !*long {
		require.True(t, all, "the page stopped")
		require.Contains(t, page, "orders/42")
		require.Contains(t, page, "mails")
		t.Log("the page has all")
	}
}
