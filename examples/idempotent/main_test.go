package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/examples/internal/runs"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The payment is made once, and its receipt is repeated.
func TestIdempotent(t *testing.T) {
	t.Parallel()
	runs.OnBoth(t, run, runs.Prints(`meanwhile: 409 is being answered
first: 200 receipt 1
again: 200 receipt 1
another: 422 the key is of another request
paid: 1
`))
}

// newClient returns a client, as each replica has one.
func newClient(t *testing.T, s *redistest.Server) *relock.Client {
	t.Helper()
	client, err := relock.NewClient(s.Network, s.Address, "")
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// Sixteen copies of a request at three replicas run it once.
func TestCopiesRunOnce(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	var paid atomic.Int32
	next := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { paid.Add(1) })
	var copies sync.WaitGroup
	for range 3 {
		pay := idempotent(newClient(t, server), next)
		for range 16 {
			copies.Go(func() {
				answer := ""
				testkit.Eventually(t, testkit.Patience, func() bool {
					answer = post(pay, "7 EUR")
					return answer != "409 is being answered"
				}, "no answer")
				require.Equal(t, "200 ", answer)
			})
		}
	}
	copies.Wait()
	require.Equal(t, int32(1), paid.Load())
}

// A failure is not stored, and the request runs again.
func TestFailureIsNotStored(t *testing.T) {
	t.Parallel()
	runs := 0
	pay := idempotent(newClient(t, redistest.Start(t)), http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if runs++; runs == 1 {
			w.WriteHeader(http.StatusBadGateway)
		}
	}))
	require.Equal(t, "502 ", post(pay, "7 EUR"))
	require.Equal(t, "200 ", post(pay, "7 EUR"))
	require.Equal(t, 2, runs)
}

// Without Redis, or when the lock was lost, the answer is 503: the request may
// have run.
func TestWithoutALock(t *testing.T) {
	t.Parallel()
	client := newClient(t, redistest.Start(t))
	lost := idempotent(client, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		require.NoError(t, client.ForceUnlock(context.Background(), keyOf(r), "by hand"))
		<-r.Context().Done()
	}))
	require.Equal(t, "503 try again later", post(lost, "7 EUR"))
	require.NoError(t, client.Close())
	require.Equal(t, "503 try again later", post(lost, "7 EUR"))
}

// Requests without a key are not taken for copies of each other.
func TestKeyIsMissing(t *testing.T) {
	t.Parallel()
	pay := idempotent(newClient(t, redistest.Start(t)), http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		t.Error("it has run")
	}))
	w := httptest.NewRecorder()
	pay.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/payments", nil))
	require.Equal(t, http.StatusBadRequest, w.Code)
}
