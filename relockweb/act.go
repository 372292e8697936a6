package relockweb

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/relock-go/relock"
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
	lock, queue := r.PostForm.Get("lock"), r.PostForm.Get("queue")
	asked := Action{Verb: r.PostForm.Get("verb"), IDs: r.PostForm["id"], Reason: r.PostForm.Get("reason")}
	err := h.change(r, asked, lock, queue)
	h.forget()
	if err == nil {
		// A path of ours would be wrong behind a prefix.
		w.Header().Set("Location", "?"+url.Values{"lock": {lock}, "queue": {queue}}.Encode())
		w.WriteHeader(http.StatusSeeOther)
		return
	}
	code := http.StatusBadGateway
	if why := (*refusal)(nil); errors.As(err, &why) {
		code = why.code
	}
	v := h.look(r.Context(), lock, queue)
	v.Notice = err.Error()
	h.show(w, code, v)
}

// change makes the change that a form asks for.
func (h *handler) change(r *http.Request, a Action, lock, queue string) error {
	ctx, cancel := context.WithTimeout(r.Context(), readLimit)
	defer cancel()
	switch {
	case a.Verb == "release" && lock != "":
		a.Key, a.IDs = lock, nil
		return h.release(ctx, r, a)
	case (a.Verb == "requeue" || a.Verb == "remove") && queue != "":
		a.Key, a.Reason = queue, ""
		return h.settle(ctx, r, a)
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
	if errors.Is(err, relock.ErrNotHeld) {
		return refuse(http.StatusConflict, "nothing was done: the lock is free")
	}
	return err
}

// settle requeues or removes the dead letters that were ticked.
func (h *handler) settle(ctx context.Context, r *http.Request, a Action) error {
	q, err := h.named(a.Key)
	switch {
	case err != nil:
		return refuse(http.StatusBadRequest, "%w", err)
	case len(a.IDs) == 0 || len(a.IDs) > maxLetters:
		return refuse(http.StatusBadRequest, "1 to %d dead letters are needed", maxLetters)
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
	for _, id := range a.IDs {
		if err := q.Remove(ctx, id); err != nil {
			return err
		}
	}
	return nil
}
