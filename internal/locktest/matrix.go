package locktest

import (
	"time"

	"github.com/relock-go/relock/internal/faults"
)

// Fault is what happens to the request.
type Fault struct {
	Name    string
	Action  faults.Action
	Late    func(time.Duration) faults.Action // in place of action: later than the caller waits
	Granted bool                              // an acquiring call succeeds all the same
	Silent  bool                              // there is no answer in time
	Leaves  bool                              // the caller's context ends when the proxy has the request
	Same    bool                              // the lock is taken again by the same owner, else by another
	Copy    bool                              // of a request that was answered
	Tcp     bool                              // over TCP, else over a unix socket

	// When what was held back comes: at once, after the last release, or during the next hold.
	Early, Released, Next bool
}
