// Http has a handler that pays an order once. It answers 409 while others pay
// it, 503 without Redis, and 500 if it may be paid. It needs only Go.
package main

import (
	"context"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/examples/internal/embedded"
)

func payHandler(client *relock.Client, charge func(context.Context) error) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /orders/{id}", func(w http.ResponseWriter, r *http.Request) {
		lock := relock.NewRedisLock("orders/"+r.PathValue("id"), client, relock.WithBlockTimeout(200*time.Millisecond))
		switch err := lock.Do(r.Context(), charge); {
		case r.Context().Err() != nil: // nobody waits for the answer
		case relock.NotRun(err) && errors.Is(err, relock.ErrLockAcquiredByOthers):
			http.Error(w, "is being paid", http.StatusConflict)
		case relock.NotRun(err):
			http.Error(w, "try again later", http.StatusServiceUnavailable)
		case err != nil: // charge has failed, or the lock was lost while it ran
			http.Error(w, "may be paid, look first", http.StatusInternalServerError)
		}
	})
	return mux
}

func main() { embedded.Main(run) }

// run pays an order in each of these situations.
func run(ctx context.Context, out io.Writer, url string) error {
	client, err := relock.NewClientURL(url)
	if err != nil {
		return err
	}
	var busy int
	first := post(payHandler(client, func(context.Context) error {
		busy = post(payHandler(client, func(context.Context) error { return nil }))
		return nil
	}))
	bad := post(payHandler(client, func(context.Context) error { return relock.ErrLockAcquiredByOthers }))
	lost := post(payHandler(client, func(context.Context) error { return client.ForceUnlock(ctx, "orders/42", "hangs") }))
	err = client.Close() // as if Redis were gone
	away := post(payHandler(client, nil))
	log.New(out, "", 0).Println("paid:", first, "meanwhile:", busy, "failed:", bad, "lost:", lost, "without Redis:", away)
	return err
}

func post(handler http.Handler) int {
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/orders/42", nil))
	return w.Code
}
