package relockweb

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/queue"
)

// maxReason is the most that ForceUnlock takes.
const maxReason = 256

// refusal is why a change was not made, with the code of the answer.
type refusal struct {
	code int
	err  error
}

func (r *refusal) Error() string { return r.err.Error() }

func refuse(code int, format string, args ...any) error {
	return &refusal{code, fmt.Errorf(format, args...)}
}

// act makes a change, and shows what has become of it.
func (h *handler) act(w http.ResponseWriter, r *http.Request) {
	if err := r.ParseForm(); err != nil {
		http.Error(w, "the form cannot be read", http.StatusBadRequest)
		return
	}
	asked := toQuery(r.PostForm)
	err := h.change(r, asked)
	h.forget()
	if err == nil {
		// A path of ours would be wrong behind a prefix.
		w.Header().Set("Location", asked.after(r.PostForm.Get("verb")).link())
		w.WriteHeader(http.StatusSeeOther)
		return
	}
	code := http.StatusBadGateway
	if why := (*refusal)(nil); errors.As(err, &why) {
		code = why.code
	}
	v := h.look(r.Context(), asked)
	v.Notice = err.Error()
	h.show(w, code, v)
}

// change makes the change that a form asks for.
func (h *handler) change(r *http.Request, asked query) error {
	ctx, cancel := context.WithTimeout(r.Context(), readLimit)
	defer cancel()
	a := Action{Verb: r.PostForm.Get("verb")}
	switch {
	case a.Verb == "release" && asked.lock != "":
		a.Key, a.Reason = asked.lock, r.PostForm.Get("reason")
		return h.release(ctx, r, a)
	case (a.Verb == "requeue" || a.Verb == "remove") && asked.queue != "":
		a.Key, a.IDs = asked.queue, r.PostForm["id"]
		return h.settle(ctx, r, a)
	case pauses[a.Verb] != nil && asked.queue != "":
		a.Key, a.TaskKey = asked.queue, r.PostForm.Get("key")
		return h.pause(ctx, r, a)
	}
	return refuse(http.StatusBadRequest, "the form asks for nothing that the page can do")
}

// allow asks audit.
func (h *handler) allow(r *http.Request, a Action) error {
	if err := h.audit(r, a); err != nil {
		return refuse(http.StatusForbidden, "refused: %w", err)
	}
	return nil
}

// release ends a hold, if it is the one that the viewer has seen.
func (h *handler) release(ctx context.Context, r *http.Request, a Action) error {
	if a.Reason == "" || len(a.Reason) > maxReason {
		return refuse(http.StatusBadRequest, "a reason of 1 to %d bytes is needed", maxReason)
	}
	info, err := h.client.Inspect(ctx, a.Key)
	switch {
	case err != nil:
		return err
	case seen(info) != r.PostForm.Get("seen"):
		return refuse(http.StatusConflict, "nothing was done: the lock has changed since you looked")
	}
	if err := h.allow(r, a); err != nil {
		return err
	}
	err = h.client.ForceUnlock(ctx, a.Key, a.Reason)
	switch {
	case errors.Is(err, relock.ErrNotHeld):
		return refuse(http.StatusConflict, "nothing was done: the lock is free")
	case errors.Is(err, relock.ErrLockAcquiredByOthers):
		return nil // it is marked, which the page shows
	}
	return err
}

// settle requeues dead letters, or removes tasks, those that were ticked.
func (h *handler) settle(ctx context.Context, r *http.Request, a Action) error {
	q, err := h.named(a.Key)
	switch {
	case err != nil:
		return refuse(http.StatusBadRequest, "%w", err)
	case len(a.IDs) == 0 || len(a.IDs) > pageSize:
		return refuse(http.StatusBadRequest, "1 to %d tasks are needed", pageSize)
	}
	if err := h.allow(r, a); err != nil {
		return err
	}
	if a.Verb == "requeue" {
		n, err := q.Requeue(ctx, a.IDs...)
		if err == nil && n < len(a.IDs) {
			err = refuse(http.StatusConflict, "%d of %d were requeued: the others were none any more", n, len(a.IDs))
		}
		return err
	}
	for n, id := range a.IDs {
		err := q.Remove(ctx, id)
		if errors.Is(err, queue.ErrNotFound) || errors.Is(err, queue.ErrInFlight) {
			err = refuse(http.StatusConflict, "%d of %d were removed: %w", n, len(a.IDs), err)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// pauses are the verbs that pause and resume. Those of a whole queue need no
// key, so that a form without one never stops more than was asked.
var pauses = map[string]func(ctx context.Context, q *queue.Queue, key string) error{
	"pause":      func(ctx context.Context, q *queue.Queue, _ string) error { return q.Pause(ctx) },
	"resume":     func(ctx context.Context, q *queue.Queue, _ string) error { return q.Resume(ctx) },
	"pause key":  func(ctx context.Context, q *queue.Queue, key string) error { return q.PauseKey(ctx, key) },
	"resume key": func(ctx context.Context, q *queue.Queue, key string) error { return q.ResumeKey(ctx, key) },
}

// pause pauses or resumes a queue, or a key of it.
func (h *handler) pause(ctx context.Context, r *http.Request, a Action) error {
	q, err := h.named(a.Key)
	ofKey := strings.HasSuffix(a.Verb, " key")
	switch {
	case err != nil:
		return refuse(http.StatusBadRequest, "%w", err)
	case ofKey == (a.TaskKey == ""):
		return refuse(http.StatusBadRequest, "%s: the key of tasks is %.40q", a.Verb, a.TaskKey)
	}
	if err := h.allow(r, a); err != nil {
		return err
	}
	if err = pauses[a.Verb](ctx, q, a.TaskKey); errors.Is(err, relock.ErrInvalid) {
		return refuse(http.StatusBadRequest, "%w", err)
	}
	return err
}
