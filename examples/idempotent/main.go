// Idempotent pays once, however often the request is sent: middleware.go has an
// HTTP middleware for the header Idempotency-Key. It needs only Go, see
// quickstart.
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/examples/internal/embedded"
)

func main() { embedded.Main(run) }

// run sends a payment twice, once more while it is paid, and another one with
// the same key.
func run(_ context.Context, out io.Writer, url string) error {
	client, err := relock.NewClientURL(url)
	if err != nil {
		return err
	}
	lines, paid, pay := log.New(out, "", 0), 0, http.Handler(nil)
	pay = idempotent(client, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if paid++; paid == 1 {
			lines.Println("meanwhile:", post(pay, "7 EUR"))
		}
		_, _ = fmt.Fprint(w, "receipt ", paid)
	}))
	lines.Println("first:", post(pay, "7 EUR"))
	lines.Println("again:", post(pay, "7 EUR"))
	lines.Println("another:", post(pay, "9 EUR"))
	lines.Println("paid:", paid)
	return client.Close()
}

func post(handler http.Handler, body string) string {
	r, w := httptest.NewRequest(http.MethodPost, "/payments", strings.NewReader(body)), httptest.NewRecorder()
	r.Header.Set("Idempotency-Key", "8e03978e")
	handler.ServeHTTP(w, r)
	return fmt.Sprint(w.Code, " ", strings.TrimSpace(w.Body.String()))
}
