package conns

import (
	"runtime"
	"slices"
	"time"

	"github.com/relock-go/relock/internal/redis/driver"
	"github.com/relock-go/relock/internal/redis/wire"
)

// send takes a request at now, and reports whether it did. If the connection
// takes none any more, nothing was sent.
func (s *stream) send(c *Call, r driver.Request, now time.Time) bool {
	s.mu.Lock()
	if s.over {
		s.mu.Unlock()
		return false
	}
	s.enqueue(c, r)
	s.writeUnlessOther(now)
	return true
}

// enqueue adds a request to those that are not written yet; mu is held.
func (s *stream) enqueue(c *Call, r driver.Request) {
	s.waiting = append(s.waiting, entry{c, r})
	s.plan(c.until)
}

// writeUnlessOther writes what is enqueued, unless another caller does. mu is
// held, and is unlocked.
func (s *stream) writeUnlessOther(now time.Time) {
	if s.writing {
		s.mu.Unlock()
		return
	}
	s.writing = true
	// A user's connection may have no limit for a write.
	stuck := !s.server.own || s.flight > 0 && now.Sub(s.quiet) > slow
	crowded := s.flight >= crowd
	s.mu.Unlock()
	if crowded && !stuck {
		runtime.Gosched()
	}
	if stuck || s.tooMany() || s.write() {
		s.more <- struct{}{}
	}
}

func (s *stream) tooMany() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.waiting) > maxOwnBatch
}

// write sends the waiting requests. It reports whether more came meanwhile, so
// that another write is needed.
func (s *stream) write() (more bool) {
	batch, now := s.take()
	err := s.put(batch, now)
	clear(batch)
	if err != nil {
		s.cut(err) // then the reader ends the calls
	}
	s.mu.Lock()
	s.spare = batch[:0]
	more = len(s.waiting) > 0 && s.cause == nil
	s.writing = more
	served := s.isServed()
	s.mu.Unlock()
	if served {
		s.cut(errStale)
	}
	return more
}

// take returns the next batch: the waiting requests, without those that their
// callers have abandoned.
func (s *stream) take() ([]entry, time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	batch := slices.DeleteFunc(s.waiting, func(e entry) bool { return !e.call.begin(now) })
	for _, e := range batch {
		s.written = append(s.written, e.call)
	}
	if s.flight == 0 {
		s.quiet = now
	}
	s.flight += len(batch)
	s.waiting = s.spare
	return batch, now
}

// put writes a batch. All of it is written soon after its sending time was
// noted: what is written later may outlast a clean-up.
func (s *stream) put(batch []entry, sent time.Time) error {
	for i := range batch {
		if err := s.add(&batch[i].request, sent); err != nil {
			return err
		}
	}
	return s.flush(sent)
}

// add collects a request of a batch. A connection of our own writes once it has
// many bytes, and keeps its buffer. A user's connection may write at any time.
func (s *stream) add(r *driver.Request, sent time.Time) error {
	own, ok := s.conn.(*wire.Conn)
	switch {
	case !ok && s.isLate(sent):
		return driver.ErrTimeout
	case ok && len(own.Out) > wire.MaxKept/2:
		if err := s.flush(sent); err != nil {
			return err
		}
	}
	return wire.Send(s.conn, r)
}

func (s *stream) flush(sent time.Time) error {
	if s.isLate(sent) {
		return driver.ErrTimeout
	}
	return s.conn.Flush()
}

// isLate reports whether a batch takes too long to write.
func (s *stream) isLate(sent time.Time) bool { return time.Since(sent) > s.server.commandTimeout }

// writeOn continues where a caller stopped. It yields first to callers that are
// about to send.
func (s *stream) writeOn() {
	for {
		select {
		case <-s.more:
			for more := true; more; more = s.write() {
				runtime.Gosched()
			}
		case <-s.done:
			return
		}
	}
}

// sendAll takes several requests at now, which are written together. It reports
// whether it did, as send does.
func (s *stream) sendAll(calls []*Call, requests []driver.Request, now time.Time) bool {
	s.mu.Lock()
	if s.over {
		s.mu.Unlock()
		return false
	}
	for i, c := range calls {
		s.enqueue(c, requests[i])
	}
	s.writeUnlessOther(now)
	return true
}
