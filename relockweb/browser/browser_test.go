package browser

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
	"github.com/relock-go/relock/queue"
	"github.com/relock-go/relock/relockweb"
)

// tab is a page in a browser.
type tab struct {
	testing.TB
	ctx    context.Context
	url    string
	server *redistest.Server
	client *relock.Client // of the page

	mu       sync.Mutex
	troubles []string
	requests []string
}

// open starts a browser. It is skipped without one, except by CI.
func open(t testing.TB, opts ...relockweb.Option) *tab {
	t.Helper()
	path := browserPath(t)
	s := redistest.Start(t)
	b := &tab{TB: t, server: s, client: locktest.CloseLater(t)(relock.NewClient(s.Network, s.Address, ""))}
	opts = append(opts, relockweb.WithActions(func(*http.Request, relockweb.Action) error { return nil }))
	mux := http.NewServeMux()
	mux.Handle("/debug/relock", relockweb.Handler(b.client, opts...))
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	b.url = server.URL + "/debug/relock"

	flags := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox,
		chromedp.Flag("disable-dev-shm-usage", true), chromedp.WSURLReadTimeout(testkit.Patience))
	ctx, cancel := context.WithTimeout(context.Background(), 4*testkit.Patience)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewExecAllocator(ctx, flags...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	b.ctx = ctx
	chromedp.ListenTarget(ctx, b.hear)
	b.do(network.Enable(), log.Enable(), runtime.Enable())
	return b
}

// browserPath returns the program.
func browserPath(t testing.TB) string {
	t.Helper()
	for _, path := range []string{"/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"} {
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	redistest.Lacks(t, "needs Chromium")
	return ""
}

// hear notes what the console says, and each request.
func (b *tab) hear(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *log.EventEntryAdded:
		b.troubles = append(b.troubles, e.Entry.Text+" "+e.Entry.URL)
	case *runtime.EventExceptionThrown:
		b.troubles = append(b.troubles, e.ExceptionDetails.Error())
	case *network.EventRequestWillBeSent:
		b.requests = append(b.requests, e.Request.URL)
	}
}

func (b *tab) do(actions ...chromedp.Action) {
	b.Helper()
	require.NoError(b, chromedp.Run(b.ctx, actions...))
}

// says waits until the page has a text. A page that is being left cannot say.
func (b *tab) says(text string) {
	b.Helper()
	testkit.Eventually(b, testkit.Patience, func() bool {
		var found bool
		err := chromedp.Run(b.ctx, chromedp.Evaluate(`document.body.innerText.includes("`+text+`")`, &found))
		return err == nil && found
	}, "the page does not say "+text)
}

// calm requires that the console is empty, and that nothing was asked of other
// hosts.
func (b *tab) calm() {
	b.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	require.Empty(b, b.troubles)
	require.NotEmpty(b, b.requests)
	for _, url := range b.requests {
		require.Contains(b, url, b.url)
	}
}

func (b *tab) take(key string) relock.Hold {
	b.Helper()
	h, err := relock.NewRedisLock(key, b.client).Acquire(b.Context())
	require.NoError(b, err)
	return h
}

// A lock that appears is seen without a reload. Its hold is ended by the
// keyboard only, and its holder gets the reason.
func TestLockInABrowser(t *testing.T) {
	b := open(t)
	b.do(chromedp.Navigate(b.url), chromedp.Evaluate(`window.first = true`, nil))
	b.says("No lock is held")
	h := b.take("orders/42")
	b.says("orders/42")
	var first bool
	b.do(chromedp.Evaluate(`window.first === true`, &first))
	require.True(t, first, "the page was loaded again")
	b.do(chromedp.Focus(`main a[href*="orders"]`), chromedp.KeyEvent("\r"))
	b.says("End the hold")
	b.do(chromedp.Focus(`input[name=reason]`), chromedp.KeyEvent("it hangs\r"))
	b.says("free")
	err := h.Unlock(t.Context())
	require.ErrorIs(t, err, relock.ErrForced)
	require.ErrorContains(t, err, "it hangs")
	b.calm()
}

// What a viewer has typed or ticked survives the refreshes.
func TestRefreshKeepsInput(t *testing.T) {
	b := open(t)
	b.take("key")
	b.do(chromedp.Navigate(b.url+"?lock=key"), chromedp.Focus(`input[name=reason]`), chromedp.KeyEvent("half a"),
		chromedp.Blur(`input[name=reason]`))
	var text string
	b.do(chromedp.Sleep(5*time.Second), chromedp.Value(`input[name=reason]`, &text)) // more than two refreshes
	require.Equal(t, "half a", text)
	b.calm()
}

// Two ticked letters are requeued, and a worker gets both.
func TestLettersInABrowser(t *testing.T) {
	s := redistest.Start(t)
	c := locktest.CloseLater(t)(relock.NewClient(s.Network, s.Address, ""))
	q, err := queue.New("mails", c, queue.WithMaxAttempts(1))
	require.NoError(t, err)
	for _, id := range []string{"a", "b", "c"} {
		_, err := q.Enqueue(t.Context(), queue.Task{ID: id})
		require.NoError(t, err)
		d, err := q.Receive(t.Context(), 1)
		require.NoError(t, err)
		require.NoError(t, d[0].DeadLetter(t.Context(), errors.New("smtp 550")))
	}
	b := open(t, relockweb.WithQueues(q))
	b.do(chromedp.Navigate(b.url + "?queue=mails"))
	b.says("smtp 550")
	b.do(chromedp.Click(`input[value=a]`), chromedp.Click(`input[value=b]`), chromedp.Sleep(5*time.Second))
	var ticked int
	b.do(chromedp.Evaluate(`document.querySelectorAll("input:checked").length`, &ticked))
	require.Equal(t, 2, ticked, "a refresh has taken a tick")
	b.do(chromedp.Click(`button[value=requeue]`))
	testkit.Eventually(t, testkit.Patience, func() bool {
		stats, err := q.Stats(t.Context())
		require.NoError(t, err)
		return stats.Ready == 2
	}, "they are not requeued")
	for range 2 {
		d, err := q.Receive(t.Context(), 1)
		require.NoError(t, err)
		require.Contains(t, []string{"a", "b"}, d[0].ID)
		require.NoError(t, d[0].Ack(t.Context()))
	}
	b.calm()
}

// A form of another holder ends nothing, and the new one is shown.
func TestOldFormInABrowser(t *testing.T) {
	b := open(t)
	h := b.take("key")
	b.do(chromedp.Navigate(b.url+"?lock=key"), chromedp.Focus(`input[name=reason]`), chromedp.KeyEvent("it hangs"))
	require.NoError(t, h.Unlock(t.Context()))
	next := b.take("key")
	b.do(chromedp.KeyEvent("\r"))
	b.says("nothing was done: the lock has changed since you looked")
	require.NoError(t, next.Unlock(t.Context()))
}
