package relockweb_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/faults"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
	"github.com/relock-go/relock/relockweb"
)

func TestMain(m *testing.M) {
	redistest.Overlap()
	goleak.VerifyTestMain(m)
}

// lab is a server, a proxy in front of it, and a page that reads through it.
type lab struct {
	testing.TB
	server  *redistest.Server
	proxy   *faults.Proxy
	client  *relock.Client // of the page
	page    http.Handler
	actions []relockweb.Action
	refuses bool
}

func newLab(t testing.TB, actions bool, opts ...relockweb.Option) *lab {
	t.Helper()
	s := redistest.Start(t)
	l := &lab{TB: t, server: s, proxy: faults.Start(t, s.Network, s.Address)}
	l.client = locktest.CloseLater(t)(relock.NewClient(l.proxy.Network, l.proxy.Address, ""))
	if actions {
		opts = append(opts, relockweb.WithActions(l.audit))
	}
	l.page = relockweb.Handler(l.client, opts...)
	return l
}

func (l *lab) audit(_ *http.Request, a relockweb.Action) error {
	if l.refuses {
		return errors.New("not you")
	}
	l.actions = append(l.actions, a)
	return nil
}

// other returns a client beside the proxy.
func (l *lab) other() *relock.Client {
	l.Helper()
	return locktest.CloseLater(l)(relock.NewClient(l.server.Network, l.server.Address, ""))
}

func (l *lab) serve(r *http.Request) *http.Response {
	w := httptest.NewRecorder()
	l.page.ServeHTTP(w, r)
	return w.Result()
}

// get returns a view.
func (l *lab) get(query string) string {
	l.Helper()
	answer := l.serve(httptest.NewRequest(http.MethodGet, "/debug/relock?"+query, nil))
	require.Equal(l, http.StatusOK, answer.StatusCode)
	return read(l, answer)
}

func read(t testing.TB, answer *http.Response) string {
	t.Helper()
	text, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	return string(text)
}

// post sends a form, as a browser does.
func (l *lab) post(form url.Values, site string) *http.Response {
	r := httptest.NewRequest(http.MethodPost, "/debug/relock", strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Sec-Fetch-Site", site)
	return l.serve(r)
}

// field returns the value of a hidden field.
func field(t testing.TB, text, name string) string {
	t.Helper()
	_, rest, found := strings.Cut(text, `name="`+name+`" value="`)
	require.True(t, found, text)
	value, _, _ := strings.Cut(rest, `"`)
	return value
}

// waits makes a client wait for a lock until the test ends.
func (l *lab) waits(c *relock.Client, key string) {
	l.Helper()
	ctx, cancel := context.WithCancel(l.Context())
	done := testkit.Async(l, func() error {
		return relock.NewRedisLock(key, c, relock.WithBlock()).Lock(ctx)
	})
	l.Cleanup(func() {
		cancel()
		l.Log("the waiter ended:", <-done) // it may have got the lock meanwhile
	})
	looks := l.other()
	testkit.Eventually(l, testkit.Patience, func() bool {
		info, err := looks.Inspect(l.Context(), key)
		require.NoError(l, err)
		return info.Waiting > 0
	}, "nobody waits")
}

func (l *lab) take(c *relock.Client, key string, opts ...relock.LockOption) relock.Hold {
	l.Helper()
	h, err := relock.NewRedisLock(key, c, opts...).Acquire(l.Context())
	require.NoError(l, err)
	return h
}
