package relocktest_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/relocktest"
)

// payHandler is the code under test. It pays an order under its lock, and waits
// for the lock for at most 200 ms.
func payHandler(locker relock.Locker) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), 200*time.Millisecond)
		defer cancel()
		err := relock.Do(ctx, locker, "orders/42", func(context.Context) error { return nil })
		switch {
		case r.Context().Err() != nil: // the caller is gone
		case errors.Is(err, relock.ErrLockAcquiredByOthers):
			http.Error(w, "the order is being paid", http.StatusConflict)
		case err != nil:
			http.Error(w, "no lock", http.StatusServiceUnavailable)
		default:
			w.WriteHeader(http.StatusNoContent)
		}
	}
}

// The unit test of an HTTP handler. The package documentation has it as a test
// function.
func Example() {
	locker := relocktest.NewLocker()
	pay := func() int {
		w := httptest.NewRecorder()
		payHandler(locker)(w, httptest.NewRequest(http.MethodPost, "/orders/42/pay", nil))
		return w.Code
	}
	fmt.Println(pay())
	release := locker.Busy("orders/42")
	fmt.Println(pay())
	release()
	fmt.Println(pay())
	// Output:
	// 204
	// 409
	// 204
}

// Options are those of [relock.NewLocker]. Mistakes show at the first call.
func ExampleNewLocker() {
	ctx := context.Background()
	locker := relocktest.NewLocker(relock.WithFencing())
	for range 2 {
		hold, err := locker.Lock(ctx, "report")
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println("token", hold.Fence(), "error:", hold.Unlock(ctx))
	}
	_, err := relocktest.NewLocker(relock.WithBlockTimeout(time.Second)).Lock(ctx, "report")
	fmt.Println(errors.Is(err, relock.ErrInvalid))
	// Output:
	// token 1 error: <nil>
	// token 2 error: <nil>
	// true
}

// Code that waits gets the lock when the others release it.
func ExampleLocker_Busy() {
	locker := relocktest.NewLocker()
	release := locker.Busy("report")
	err := relock.TryDo(context.Background(), locker, "report", func(context.Context) error {
		fmt.Println("not reached")
		return nil
	})
	fmt.Println("busy:", errors.Is(err, relock.ErrLockAcquiredByOthers))
	release()
	err = relock.TryDo(context.Background(), locker, "report", func(context.Context) error {
		fmt.Println("reached")
		return nil
	})
	fmt.Println("error:", err)
	// Output:
	// busy: true
	// reached
	// error: <nil>
}

// The code under test stops when its lock is lost.
func ExampleLocker_Lose() {
	locker := relocktest.NewLocker()
	err := relock.Do(context.Background(), locker, "import", func(ctx context.Context) error {
		fmt.Println("held:", locker.Lose("import"))
		<-ctx.Done()
		return errors.New("import stopped")
	})
	fmt.Println("lost:", errors.Is(err, relock.ErrLockLost))
	// Output:
	// held: true
	// lost: true
}

// A test waits until the code under test waits.
func ExampleLocker_Waiting() {
	locker := relocktest.NewLocker()
	release := locker.Busy("import")
	done := make(chan error)
	go func() {
		done <- relock.Do(context.Background(), locker, "import", func(context.Context) error { return nil })
	}()
	for locker.Waiting("import") == 0 {
		time.Sleep(time.Millisecond)
	}
	release()
	fmt.Println("error:", <-done)
	fmt.Println("waiting:", locker.Waiting("import"))
	// Output:
	// error: <nil>
	// waiting: 0
}

// The code under test answers 503 while the server is away.
func ExampleLocker_Down() {
	locker := relocktest.NewLocker()
	up := locker.Down()
	err := relock.TryDo(context.Background(), locker, "report", func(context.Context) error { return nil })
	fmt.Println("try later:", relock.IsRetryableErr(err))
	fmt.Println("busy:", errors.Is(err, relock.ErrLockAcquiredByOthers))
	up()
	err = relock.TryDo(context.Background(), locker, "report", func(context.Context) error { return nil })
	fmt.Println("error:", err)
	// Output:
	// try later: true
	// busy: false
	// error: <nil>
}

// A test ends with the question whether the code under test has unlocked.
func ExampleLocker_RequireFree() {
	locker := relocktest.NewLocker()
	hold, err := locker.Lock(context.Background(), "report")
	if err != nil {
		fmt.Println(err)
		return
	}
	locker.RequireFree(func(_ string, args ...any) { fmt.Println("held:", args[0]) })
	fmt.Println("error:", hold.Unlock(context.Background()))
	locker.RequireFree(func(_ string, args ...any) { fmt.Println("held:", args[0]) })
	// Output:
	// held: [report]
	// error: <nil>
}

// Methods of the Locker are those of [relock.Locker].
func ExampleLocker_Lock() {
	ctx := context.Background()
	locker := relocktest.NewLocker()
	hold, err := locker.Lock(ctx, "report")
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = locker.TryLock(ctx, "report")
	fmt.Println("held:", errors.Is(err, relock.ErrLockAcquiredByOthers))
	fmt.Println("error:", hold.Unlock(ctx))
	// Output:
	// held: true
	// error: <nil>
}
