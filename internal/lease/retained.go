package lease

import "github.com/relock-go/relock/internal/waitqueue"

// A lock that was passed on in this process has a retained queue entry, of the
// waiter that it was passed to. The end of the lock removes that entry from the
// queue at the server, too.

// withRetained ends the retained queue entry of a lock together with what end
// sends, which names the entry.
func (l *Lease) withRetained(end func() error) error {
	retained := l.takeRetained()
	err := end()
	retained.LeaveWith(err)
	return err
}

// endRetained ends the retained queue entry of a lock that has ended for the
// reason why. Each later release names the entry.
func (l *Lease) endRetained(why error) { l.takeRetained().LeaveWith(why) }

// takeRetained returns the retained queue entry of a lock that ends. The
// release of the lock removes the entry from the queue.
func (l *Lease) takeRetained() *waitqueue.Entry {
	l.Mu.Lock()
	defer l.Mu.Unlock()
	if l.passes == 0 {
		return nil
	}
	place := l.client.Queue.TakeRetained(l.client.RedisKey(l.Name))
	if place == nil {
		return nil
	}
	var end ending
	if l.ending != nil {
		end = *l.ending
	}
	end.retained = place.Name
	l.ending = &end
	return place
}
