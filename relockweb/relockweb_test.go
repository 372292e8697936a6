package relockweb_test

import (
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/faults"
	"github.com/relock-go/relock/internal/test/testkit"
	"github.com/relock-go/relock/queue"
	"github.com/relock-go/relock/relockweb"
)

// The overview has locks with their waiters, and names clients that wait for
// each other.
func TestOverview(t *testing.T) {
	t.Parallel()
	l := newLab(t, false)
	one, two := l.other(), l.other()
	l.take(one, "orders/42", relock.WithLabel("payout"))
	l.take(two, "stock/9")
	require.NotContains(t, l.get("x=1"), "deadlock")
	l.waits(two, "orders/42")
	l.waits(one, "stock/9")
	l = &lab{TB: t, page: relockweb.Handler(l.client)} // not the reading of before
	text := l.get("")
	require.Regexp(t, `(?s)href="\?lock=orders%2F42">orders/42</a></td><td>1</td>.*payout @ `, text)
	require.Equal(t, 1, strings.Count(text, "May be a deadlock: "))
	require.Contains(t, text, " waits for stock/9")
	require.NotContains(t, text, `method="post"`)
}

// The list has the locks that match a filter, and a line that sums it up.
func TestFilter(t *testing.T) {
	t.Parallel()
	l := newLab(t, false)
	c := l.other()
	for _, key := range []string{"orders/1", "orders/2", "stock/9"} {
		l.take(c, key)
	}
	l.waits(l.other(), "orders/2")
	require.Contains(t, l.get(""), "3 locks held; 1 waiters for 1 locks, the longest for ")
	text := l.get("match=orders/*")
	require.Contains(t, text, "2 locks held; ")
	require.Contains(t, text, `name="match" value="orders/*"`)
	require.Contains(t, text, "orders/1</a>")
	require.NotContains(t, text, "stock/9")
	require.Contains(t, l.get("match=none"), "No lock is held that matches the filter.")
	require.NotContains(t, l.get("match=stock*&format=json"), "orders")
}

// Two filters read the database one after the other.
func TestFiltersReadInTurn(t *testing.T) {
	t.Parallel()
	l := newLab(t, false)
	l.page = relockweb.Handler(l.client, relockweb.WithQueues(newQueue(t, l.client)))
	open := make(chan struct{})
	defer close(open)
	scan := faults.Command("SCAN")
	l.proxy.On(scan, 1, faults.DelayUntil(open))
	first := testkit.Async(t, func() error { l.get("match=a*"); return nil })
	require.True(t, l.proxy.Await(scan, 1, testkit.Patience))
	l.get("match=b*")
	require.NoError(t, testkit.ResultWithin(t, first, testkit.Patience))
	var at []time.Time
	for _, r := range l.proxy.Seen() {
		if r.Name == "SCAN" {
			at = append(at, r.At)
		}
	}
	for _, later := range at[1:] { // the second may have no time left
		require.Greater(t, later.Sub(at[0]), time.Second, "while the first one reads")
	}
}

// A lock's view has its holder and waiters. It has no button without actions.
func TestLockView(t *testing.T) {
	t.Parallel()
	l := newLab(t, false)
	l.take(l.other(), "key", relock.WithLabel("job"))
	l.waits(l.other(), "key")
	text := l.get("lock=key")
	require.Contains(t, text, "job @ ")
	require.Contains(t, text, "Waiters: 1")
	require.NotContains(t, text, "End the hold")
	require.Contains(t, l.get("lock=nobody"), "free")
	l.server.Do(t, "SET", "relock:{other}", "x")
	require.Contains(t, l.get("lock=other"), "bad")
}

// Names of others are text, and drive nothing.
func TestNamesAreText(t *testing.T) {
	t.Parallel()
	l := newLab(t, true)
	odd := "<script>alert(1)</script>\"' &?\u202e\x1b" + strings.Repeat("x", 900)
	l.take(l.other(), odd, relock.WithLabel("<img src=x onerror=alert(2)>\u202e"))
	for _, text := range []string{l.get(""), l.get(url.Values{"lock": {odd}}.Encode())} {
		require.NotContains(t, text, "<script>alert")
		require.NotContains(t, text, "<img")
		shown := regexp.MustCompile(`value="[^"]*"`).ReplaceAllString(text, "") // a form needs the name itself
		require.NotRegexp(t, "[\u202e\x1b]", shown)
		require.Contains(t, text, "&lt;script&gt;alert(1)")
	}
}

// The style and the script are those that the policy permits.
func TestPolicy(t *testing.T) {
	t.Parallel()
	l := newLab(t, true)
	answer := l.serve(httptest.NewRequest(http.MethodGet, "/", nil))
	text, head := read(t, answer), answer.Header
	for _, tag := range []string{"style", "script"} {
		found := regexp.MustCompile("(?s)<"+tag+">(.*?)</"+tag+">").FindAllStringSubmatch(text, -1)
		require.Len(t, found, 1)
		sum := sha256.Sum256([]byte(found[0][1]))
		require.Contains(t, head.Get("Content-Security-Policy"),
			tag+"-src 'sha256-"+base64.StdEncoding.EncodeToString(sum[:])+"'")
	}
	require.Contains(t, head.Get("Content-Security-Policy"), "default-src 'none'")
	require.Equal(t, "nosniff", head.Get("X-Content-Type-Options"))
	require.Equal(t, "no-store", head.Get("Cache-Control"))
}

// A read-only page changes nothing.
func TestReadOnly(t *testing.T) {
	t.Parallel()
	l := newLab(t, false)
	h := l.take(l.other(), "key")
	answer := l.post(url.Values{"verb": {"release"}, "lock": {"key"}, "reason": {"r"}}, "same-origin")
	require.Equal(t, http.StatusMethodNotAllowed, answer.StatusCode)
	require.Equal(t, "GET, HEAD", answer.Header.Get("Allow"))
	require.NoError(t, h.Extend(t.Context(), time.Minute))
}

// 200 viewers that look once a second share one reading in 2 s, of JSON too,
// and nothing is sent while nobody looks.
func TestViewersShareAReading(t *testing.T) {
	t.Parallel()
	l := newLab(t, false)
	l.take(l.other(), "key")
	require.Empty(t, l.proxy.Seen())
	began := time.Now()
	var group sync.WaitGroup
	for n := range 200 {
		group.Go(func() {
			look := time.NewTicker(time.Second)
			defer look.Stop()
			for range 5 {
				l.get([]string{"", "format=json"}[n%2])
				<-look.C
			}
		})
	}
	group.Wait()
	readings := l.proxy.Count(faults.Command("PING"))
	require.LessOrEqual(t, readings, 1+int(time.Since(began)/(2*time.Second)))
	require.GreaterOrEqual(t, readings, 2)
}

// A server that hangs, or is away, costs a viewer 3s. The page says it.
func TestServerHangs(t *testing.T) {
	t.Parallel()
	l := newLab(t, false)
	l.proxy.Stall()
	watch := testkit.NewStopwatch(t)
	text := l.get("")
	watch.Within(4 * time.Second)
	require.Contains(t, text, `class="bad"`)
	require.NotContains(t, text, "No lock is held")
	l.proxy.Resume()
}

// Of a database that takes longer than 2 s to read, the page shows a part, and
// has a line about it. What it did not find can be looked up.
func TestLargeDatabase(t *testing.T) {
	t.Parallel()
	l := newLab(t, false)
	l.take(l.other(), "key")
	_, err := newQueue(t, l.other()).Enqueue(t.Context(), queue.Task{})
	require.NoError(t, err)
	open := make(chan struct{})
	defer close(open)
	l.proxy.On(faults.Command("SCAN"), faults.Every, faults.DelayUntil(open))
	watch := testkit.NewStopwatch(t)
	text := l.get("")
	watch.Within(4 * time.Second)
	require.Contains(t, text, "Not all: the list stopped after 2s.")
	require.Contains(t, text, "Not all queues: the search stopped after 2s.")
	require.Contains(t, l.get("lock=key"), "held")
	require.Contains(t, l.get("queue=mails&state=ready"), "due for")
}

// A user who may not list sees which permission is missing.
func TestPermissionIsMissing(t *testing.T) {
	t.Parallel()
	l := newLab(t, false)
	l.server.Do(t, "ACL", "SETUSER", "default", "-scan")
	require.Contains(t, l.get(""), "permission denied")
}

// A long list is cut, with a line about it.
func TestListIsCut(t *testing.T) {
	t.Parallel()
	l := newLab(t, false)
	c := l.other()
	for n := range 1001 {
		l.take(c, "key"+string(rune('0'+n%10))+strings.Repeat("x", n/10))
	}
	require.Contains(t, l.get(""), "Not all: the list stopped")
}

func TestMistakes(t *testing.T) {
	t.Parallel()
	for _, f := range []func(){
		func() { relockweb.Handler(nil) },
		func() { relockweb.WithActions(nil) },
		func() { relockweb.WithQueues(nil) },
		func() { relockweb.WithPayload(nil) },
	} {
		require.Panics(t, f)
	}
}
