// Package relocktest provides a [relock.Locker] in memory, for unit tests of
// code that takes locks. It needs no Redis, and imports no package testing.
//
// This is the test of an HTTP handler that returns 409 while others hold the
// lock of an order:
//
//	func TestPayWhileOthersPay(t *testing.T) {
//		locker := relocktest.NewLocker()
//		defer locker.Busy("orders/42")()
//		w := httptest.NewRecorder()
//		payHandler(locker)(w, httptest.NewRequest("POST", "/orders/42/pay", nil))
//		if w.Code != http.StatusConflict {
//			t.Errorf("status is %d", w.Code)
//		}
//	}
//
// [Locker.Busy] makes others hold a lock, [Locker.Lose] makes a holder lose it,
// [Locker.Down] is a server that does not answer, and [Locker.Waiting] counts
// the waiters. [Locker.RequireFree] finds locks that were left held. Code
// that takes a [relock.Mutex] is tested with [relock.FromLocker].
//
// [NewQueue] returns a task queue in memory, with the methods of [queue.Queue]
// that enqueue, receive, look, pause and manage. [Queue.RunDue] handles what is
// due.
//
// The Locker takes, waits, nests, expires and loses as that of
// [relock.NewLocker], and passes the suite of package conform. All calls of one
// Locker exclude each other, so one Locker can serve several replicas of a
// program under test.
//
// A Locker has no goroutines, and all its waits are on channels and timers. So
// a test can run in a bubble of package testing/synctest. There leases,
// timeouts and minimum holds take no real time.
package relocktest
