package conns

import (
	"slices"
	"sync"

	"github.com/gomodule/redigo/redis"

	"github.com/relock-go/relock/internal/redis/driver"
)

// aside is how long a dial takes before calls use other connections, too.
const aside = driver.MinLimit

// isClosed reports whether what done stands for has ended.
func isClosed(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}

// slots has a value for each connection in use. It is nil if callers do not
// wait for a free one.
type slots chan struct{}

// take reports whether the caller has got a slot, or needs none.
func (s slots) take() bool {
	if s == nil {
		return true
	}
	select {
	case s <- struct{}{}:
		return true
	default:
		return false
	}
}

func (s slots) free() {
	if s != nil {
		<-s
	}
}

// spares are the fetches under way that their calls have left. Each has a slot.
type spares struct {
	slots slots
	mu    sync.Mutex
	all   []*fetch
}

// leave leaves a fetch to the next call, or else to the pool. The fetch then
// has a separate slot. leave reports whether it did: it does not if the fetch
// has ended, or there is no slot for it.
func (s *spares) leave(f *fetch) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.leaveLocked(f)
}

// leaveLast leaves a fetch that has no time left, or if no other one is spare,
// and reports whether it did. So there is one more than calls that wait.
func (s *spares) leaveLast(f *fetch) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return (!f.isUnderWay() || s.first() < 0) && s.leaveLocked(f)
}

// leaveLocked is leave with mu held. It reports whether it has left f.
func (s *spares) leaveLocked(f *fetch) bool {
	if isClosed(f.done) || !s.slots.take() {
		return false
	}
	f.left, s.all = true, append(s.all, f)
	return true
}

// first returns the index of the first fetch that has time left, or -1; mu is
// held.
func (s *spares) first() int { return slices.IndexFunc(s.all, (*fetch).isUnderWay) }

// has reports whether there is a fetch to claim.
func (s *spares) has() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.first() >= 0
}

// claim returns a fetch that its call has left, or nil.
func (s *spares) claim() *fetch {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.first()
	if at < 0 {
		return nil
	}
	f := s.all[at]
	s.takeBack(f)
	return f
}

// reclaim claims a fetch that its caller has just left, and reports whether it
// did.
func (s *spares) reclaim(f *fetch) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Contains(s.all, f) {
		return false
	}
	s.takeBack(f)
	return true
}

// takeBack makes a fetch that was left one of a call again. Its slot is freed,
// because the call has one; mu is held.
func (s *spares) takeBack(f *fetch) {
	f.left = false
	s.remove(f)
	s.slots.free()
}

// end ends a fetch with what it has got. It reports whether no call waits for
// that.
func (s *spares) end(f *fetch, conn redis.Conn, err error) (left bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f.conn, f.err = conn, err
	close(f.done)
	f.end()
	s.remove(f)
	return f.left
}

func (s *spares) remove(f *fetch) {
	s.all = slices.DeleteFunc(s.all, func(one *fetch) bool { return one == f })
}
