package relockweb_test

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/testkit"
	"github.com/relock-go/relock/queue"
	"github.com/relock-go/relock/relockweb"
)

// form returns the form that ends the hold of a lock.
func (l *lab) form(key string) url.Values {
	l.Helper()
	return url.Values{
		"verb": {"release"}, "lock": {key}, "reason": {"it hangs"}, "seen": {field(l, l.get("lock="+key), "seen")},
	}
}

// The button ends the hold that was seen, after audit was asked.
func TestRelease(t *testing.T) {
	t.Parallel()
	l := newLab(t, true)
	h := l.take(l.other(), "key")
	form := l.form("key")
	require.Equal(t, http.StatusForbidden, l.post(form, "cross-site").StatusCode)
	l.refuses = true
	answer := l.post(form, "same-origin")
	require.Equal(t, http.StatusForbidden, answer.StatusCode)
	require.Contains(t, read(t, answer), "refused: not you")
	require.NoError(t, h.Err())
	l.refuses = false
	for _, reason := range []string{"", strings.Repeat("x", 257)} {
		form.Set("reason", reason)
		require.Equal(t, http.StatusBadRequest, l.post(form, "same-origin").StatusCode)
	}
	require.Empty(t, l.actions)

	form.Set("reason", "it hangs")
	answer = l.post(form, "same-origin")
	require.Equal(t, http.StatusSeeOther, answer.StatusCode)
	require.Equal(t, "?lock=key", answer.Header.Get("Location"))
	require.Equal(t, []relockweb.Action{{Verb: "release", Key: "key", Reason: "it hangs"}}, l.actions)
	err := h.Unlock(t.Context())
	require.ErrorIs(t, err, relock.ErrForced)
	require.ErrorContains(t, err, "it hangs")
}

// A form of another holder ends nothing, and shows the new one.
func TestOldFormIsRefused(t *testing.T) {
	t.Parallel()
	l := newLab(t, true)
	c := l.other()
	h := l.take(c, "key")
	form := l.form("key")
	require.NoError(t, h.Unlock(t.Context()))
	next := l.take(c, "key", relock.WithLabel("next"))
	answer := l.post(form, "same-origin")
	require.Equal(t, http.StatusConflict, answer.StatusCode)
	text := read(t, answer)
	require.Contains(t, text, "has changed since you looked")
	require.Contains(t, text, "next @ ")
	require.Empty(t, l.actions)
	require.NoError(t, next.Unlock(t.Context()))
}

// Forms that ask for something else are refused.
func TestOddForms(t *testing.T) {
	t.Parallel()
	l := newLab(t, true)
	for _, form := range []url.Values{
		{}, {"verb": {"release"}}, {"verb": {"flush"}, "lock": {"key"}}, {"verb": {"remove"}, "lock": {"key"}},
	} {
		require.Equal(t, http.StatusBadRequest, l.post(form, "same-origin").StatusCode, form)
	}
	require.Empty(t, l.actions)
}

// dead makes dead letters.
func dead(t *testing.T, l *lab, ids ...string) *queue.Queue {
	t.Helper()
	q := newQueue(t, l.client)
	for _, id := range ids {
		_, err := q.Enqueue(t.Context(), queue.Task{ID: id, Payload: []byte("to <a@b.c>")})
		require.NoError(t, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := testkit.Async(t, func() error {
		return q.Process(ctx, func(context.Context, *queue.Delivery) error { return errors.New("smtp <550>") })
	})
	testkit.Eventually(t, testkit.Patience, func() bool {
		s, err := q.Stats(t.Context())
		require.NoError(t, err)
		return s.Dead == len(ids)
	}, "they do not die")
	cancel()
	require.NoError(t, testkit.ResultWithin(t, done, testkit.Patience))
	return q
}

// A function that does not return is named on the page of its process, if the
// page has its Queue. No other page can know of it.
func TestOverdue(t *testing.T) {
	t.Parallel()
	const line = "mails: 1 overdue in this process"
	l := newLab(t, false)
	q, goOn := newQueue(t, l.client), make(chan struct{})
	free := sync.OnceFunc(func() { close(goOn) })
	ctx, cancel := context.WithCancel(t.Context())
	done := testkit.Async(t, func() error {
		return q.Process(ctx, func(context.Context, *queue.Delivery) error {
			<-goOn // whatever its context says
			return nil
		}, queue.WithTimeout(30*time.Millisecond))
	})
	t.Cleanup(free) // before Process is waited for
	_, err := q.Enqueue(t.Context(), queue.Task{ID: "hangs"})
	require.NoError(t, err)
	overdue := func(n int) func() bool {
		return func() bool {
			s, err := q.Stats(t.Context())
			require.NoError(t, err)
			return s.Overdue == n
		}
	}
	testkit.Eventually(t, testkit.Patience, overdue(1), "it is not overdue")
	for _, view := range []string{"", "queue=mails"} {
		require.Contains(t, fresh(l, q).get(view), line, view)
		require.NotContains(t, fresh(l, newQueue(t, l.other())).get(view), "overdue", view)
	}
	free()
	testkit.Eventually(t, testkit.Patience, overdue(0), "it is still overdue")
	require.NotContains(t, fresh(l, q).get(""), "overdue")
	cancel()
	require.NoError(t, testkit.ResultWithin(t, done, testkit.Patience))
}

// fresh returns the lab with a new page, which has no reading of before.
func fresh(l *lab, q *queue.Queue) *lab {
	return &lab{TB: l, page: relockweb.Handler(l.client, relockweb.WithQueues(q))}
}

func newQueue(t *testing.T, c *relock.Client) *queue.Queue {
	t.Helper()
	q, err := queue.New("mails", c, queue.WithMaxAttempts(1))
	require.NoError(t, err)
	return q
}

// Ticked dead letters are requeued or removed, and no others. A payload is
// only shown if the program says how.
func TestDeadLetters(t *testing.T) {
	t.Parallel()
	l := newLab(t, true)
	q := dead(t, l, "a", "b", "c")
	l.page = relockweb.Handler(l.client, relockweb.WithActions(l.audit), relockweb.WithQueues(q))
	require.Contains(t, l.get(""), `href="?queue=mails"`)
	text := l.get("queue=mails")
	require.Contains(t, text, "smtp &lt;550&gt;")
	require.Contains(t, text, "10 bytes")
	require.NotContains(t, text, "a@b.c")

	answer := l.post(url.Values{"verb": {"requeue"}, "queue": {"mails"}, "id": {"a"}}, "same-origin")
	require.Equal(t, http.StatusSeeOther, answer.StatusCode)
	answer = l.post(url.Values{"verb": {"remove"}, "queue": {"mails"}, "id": {"b"}}, "same-origin")
	require.Equal(t, http.StatusSeeOther, answer.StatusCode)
	require.Equal(t, []relockweb.Action{
		{Verb: "requeue", Key: "mails", IDs: []string{"a"}}, {Verb: "remove", Key: "mails", IDs: []string{"b"}},
	}, l.actions)
	s, err := q.Stats(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1, s.Ready)
	require.Equal(t, 1, s.Dead)
	answer = l.post(url.Values{"verb": {"requeue"}, "queue": {"mails"}, "id": {"b"}}, "same-origin")
	require.Equal(t, http.StatusConflict, answer.StatusCode)
	require.Equal(t, http.StatusBadRequest,
		l.post(url.Values{"verb": {"remove"}, "queue": {"mails"}}, "same-origin").StatusCode)

	l.page = relockweb.Handler(l.client,
		relockweb.WithQueues(q), relockweb.WithPayload(func(t queue.Task) string { return string(t.Payload) }))
	text = l.get("queue=mails")
	require.Contains(t, text, "to &lt;a@b.c&gt;")
	require.NotContains(t, text, "checkbox")
}
