package queue

import (
	"context"
	"runtime"
	"sync"

	"github.com/relock-go/relock/internal/redis/driver"
	"github.com/relock-go/relock/internal/script"
)

// settler sends the settles of a queue, those that come together in one script.
// A caller sends for the others that wait by then. Those that come meanwhile
// are sent by the first of them, after that.
type settler struct {
	queue *base

	mu      sync.Mutex
	sending bool
	waiting []*settling
}

// settling is one settle that waits for its script, or for its turn to send.
type settling struct {
	call    script.Call
	limit   driver.Limits
	turn    chan bool // true: it sends; false: it has a result
	result  driver.Result
	unknown script.Indeterminate
}

// commonArgs is how many arguments of a settle are those of the queue.
const commonArgs = 4

// settle sends a settle, and returns its result. It takes no longer than its
// limit: the one that sends has come before it, and has the same limit.
func (s *settler) settle(limit driver.Limits, call script.Call) (driver.Result, script.Indeterminate) {
	one := &settling{call: call, limit: limit, turn: make(chan bool, 1)}
	s.mu.Lock()
	s.waiting = append(s.waiting, one)
	first := !s.sending
	s.sending = true
	s.mu.Unlock()
	if first || <-one.turn {
		s.send()
	}
	return one.result, one.unknown
}

// send sends what is waiting, which begins with the caller's settle.
func (s *settler) send() {
	runtime.Gosched() // others are about to settle
	s.mu.Lock()
	n := min(len(s.waiting), maxTogether)
	batch := s.waiting[:n:n]
	s.waiting = s.waiting[n:]
	s.mu.Unlock()

	s.run(batch)

	s.mu.Lock()
	s.sending = len(s.waiting) > 0
	if s.sending {
		s.waiting[0].turn <- true
	}
	s.mu.Unlock()
	for _, one := range batch[1:] {
		one.turn <- false
	}
}

// run sends one script for the batch, and sets the results.
func (s *settler) run(batch []*settling) {
	call := batch[0].call
	if len(batch) > 1 {
		args := append(make([]any, 0, commonArgs+4*len(batch)), call.Args[:commonArgs]...)
		for _, one := range batch {
			args = append(args, one.call.Args[commonArgs:]...)
		}
		call.Args = args
	}
	o, d := script.Run(context.Background(), s.queue.engine.Driver, batch[0].limit, call, nil)
	answers, err := driver.Int64s(o.Reply, nil)
	for i, one := range batch {
		one.result, one.unknown = o, d
		if o.Err == nil && err == nil && i < len(answers) {
			one.result.Reply = answers[i]
		}
	}
}
