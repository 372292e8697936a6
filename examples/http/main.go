// Http has a handler that pays an order, one request at a time. It answers 409
// while others pay it, and 503 without Redis. It needs only Go, see quickstart.
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
		case errors.Is(err, relock.ErrLockAcquiredByOthers):
			http.Error(w, "is being paid", http.StatusConflict)
		case err != nil:
			http.Error(w, "try again later", http.StatusServiceUnavailable)
		}
	})
	return mux
}

func main() { embedded.Main(run) }

// run pays an order, and once more while it is being paid.
func run(_ context.Context, out io.Writer, url string) error {
	client, err := relock.NewClientURL(url)
	if err != nil {
		return err
	}
	var again int
	first := post(payHandler(client, func(context.Context) error {
		again = post(payHandler(client, func(context.Context) error { return nil }))
		return nil
	}))
	err = client.Close() // as if Redis were gone
	log.New(out, "", 0).Println("paid:", first, "meanwhile:", again, "without Redis:", post(payHandler(client, nil)))
	return err
}

func post(handler http.Handler) int {
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/orders/42", nil))
	return w.Code
}
