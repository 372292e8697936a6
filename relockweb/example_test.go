package relockweb_test

import (
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/relockweb"
)

func ExampleHandler() {
	server, stop := redistest.LaunchOrExit()
	defer stop()
	client, err := relock.NewClient(server.Network, server.Address, "")
	if err != nil {
		log.Print(err)
		return
	}
	defer client.Close()

	mux := http.NewServeMux()
	mux.Handle("/debug/relock",
		relockweb.Handler(client, relockweb.WithActions(func(r *http.Request, a relockweb.Action) error {
			log.Printf("%s %s: %s", a.Verb, a.Key, a.Reason) // and the user of r
			return nil
		})))

	answer := httptest.NewRecorder()
	mux.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/debug/relock", nil))
	fmt.Println(answer.Code, answer.Header().Get("Content-Type"))
	// Output: 200 text/html; charset=utf-8
}
