package relockweb_test

import (
	"html"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/queue"
)

// mounts are ways to serve the page, by the path at which a viewer has it.
func mounts(page http.Handler) map[string]http.Handler {
	strip := func(path string) http.Handler {
		mux := http.NewServeMux()
		mux.Handle(path, http.StripPrefix(strings.TrimSuffix(path, "/"), page))
		return mux
	}
	plain := func(path string) http.Handler {
		mux := http.NewServeMux()
		mux.Handle(path, page)
		return mux
	}
	return map[string]http.Handler{
		"/": plain("/"), "/a/b": plain("/a/b"), "/a/b/": plain("/a/b/"), "/strip": strip("/strip"),
		"/strip/": strip("/strip/"),
	}
}

// crawler follows the links of a page.
type crawler struct {
	testing.TB
	start *url.URL
	seen  map[string]bool
}

var linkOf = regexp.MustCompile(`(?:href|action|src)="([^"]*)"`)

// visit reads a page, and those that it links to.
func (c *crawler) visit(at *url.URL) {
	c.Helper()
	if c.seen[at.String()] {
		return
	}
	c.seen[at.String()] = true
	answer, err := http.Get(at.String()) //nolint:noctx // of a test
	require.NoError(c, err)
	body, err := io.ReadAll(answer.Body)
	require.NoError(c, err)
	require.NoError(c, answer.Body.Close())
	require.Equal(c, http.StatusOK, answer.StatusCode, at)
	require.NotContains(c, string(body), `<p class="bad"`, at)
	for _, found := range linkOf.FindAllStringSubmatch(string(body), -1) {
		link := html.UnescapeString(found[1])
		require.True(c, strings.HasPrefix(link, "?"), link)
		next, err := at.Parse(link)
		require.NoError(c, err)
		require.Equal(c, c.start.Path, next.Path)
		c.visit(next)
	}
}

// Each link works at any path, with StripPrefix, and behind a proxy that
// rewrites the path. What follows a change works there, too.
func TestMountedAnywhere(t *testing.T) {
	t.Parallel()
	l := newLab(t, true)
	l.take(l.other(), "orders/42 & more")
	q := newQueue(t, l.client)
	for _, task := range []queue.Task{{ID: "a", Key: "k"}, {ID: "b?/ &", Key: "k"}} {
		_, err := q.Enqueue(t.Context(), task)
		require.NoError(t, err)
	}
	direct := httptest.NewServer(l.page)
	t.Cleanup(direct.Close)
	inner, err := url.Parse(direct.URL + "/inner")
	require.NoError(t, err)
	all := mounts(l.page)
	all["/outer/relock"] = &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(inner)
		r.Out.URL.Path, r.Out.Host = "/inner", r.In.Host
	}}
	for path, page := range all {
		server := httptest.NewServer(page)
		t.Cleanup(server.Close)
		start, err := url.Parse(server.URL + path)
		require.NoError(t, err)
		c := &crawler{TB: t, start: start, seen: map[string]bool{}}
		c.visit(start)
		for _, query := range []string{
			"?lock=orders%2F42+%26+more", "?queue=mails", "?queue=mails&state=behind", "?queue=mails&task=b%3F%2F+%26",
		} {
			require.Contains(t, c.seen, start.String()+query, path)
		}
		for _, verb := range []string{"pause", "resume"} {
			//nolint:noctx // of a test
			answer, err := http.PostForm(start.String(), url.Values{"queue": {"mails"}, "verb": {verb}})
			require.NoError(t, err)
			require.NoError(t, answer.Body.Close())
			require.Equal(t, http.StatusOK, answer.StatusCode)
			require.Equal(t, start.String()+"?queue=mails", answer.Request.URL.String())
		}
	}
}
