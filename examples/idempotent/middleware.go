package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/relock-go/relock"
)

// answer is what is stored for a request.
type answer struct {
	Request [sha256.Size]byte // the sum of its body
	Code    int
	Body    []byte
}

// idempotent returns a middleware that runs the request of an Idempotency-Key
// once, and repeats its answer for a day. Meanwhile it answers 409, and 422 if
// the key has come with another body. A failure is not stored: the request can
// be sent again. The headers of an answer are not stored either.
func idempotent(client *relock.Client, next http.Handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Idempotency-Key") == "" {
			http.Error(w, "Idempotency-Key is missing", http.StatusBadRequest)
			return
		}
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		key, sum, stored := keyOf(r), sha256.Sum256(body), answer{}
		err = relock.NewRedisLock(key, client).TryDo(r.Context(), func(ctx context.Context) error {
			stored, err = once(ctx, client, key, sum, func(w http.ResponseWriter) { next.ServeHTTP(w, r.WithContext(ctx)) })
			return err
		})
		switch {
		case relock.NotRun(err) && errors.Is(err, relock.ErrLockAcquiredByOthers):
			http.Error(w, "is being answered", http.StatusConflict)
		case err != nil: // the request may have run
			http.Error(w, "try again later", http.StatusServiceUnavailable)
		case stored.Request != sum:
			http.Error(w, "the key is of another request", http.StatusUnprocessableEntity)
		default:
			w.WriteHeader(stored.Code)
			_, _ = w.Write(stored.Body)
		}
	}
}

// keyOf returns a name for the key of this caller and resource.
func keyOf(r *http.Request) string {
	of := fmt.Appendf(nil, "%q %q %q %q", r.Method, r.URL.RequestURI(),
		r.Header.Get("Authorization"), r.Header.Get("Idempotency-Key"))
	return fmt.Sprintf("answers/%x", sha256.Sum256(of))
}

var get = relock.NewScript("return redis.call('GET', KEYS[1])")

// once returns the stored answer. If there is none, it runs the request, and
// stores the answer before the lock is released: between an unlock and a later
// write, the request could run again.
func once(
	ctx context.Context, client *relock.Client, key string, sum [sha256.Size]byte, run func(http.ResponseWriter),
) (a answer, err error) {
	found, err := client.Eval(ctx, get, []string{key})
	if err != nil {
		return a, err
	}
	if text, ok := found.(string); ok {
		return a, json.Unmarshal([]byte(text), &a)
	}
	w := httptest.NewRecorder()
	run(w)
	a = answer{sum, w.Code, w.Body.Bytes()}
	if a.Code >= http.StatusInternalServerError {
		return a, nil
	}
	text, err := json.Marshal(a)
	if err != nil {
		return a, err
	}
	_, err = client.SetNEX(ctx, key, string(text), 24*time.Hour)
	return a, err
}
