package lease

import "github.com/relock-go/relock/internal/waitqueue"

// retained is a lease as far as its retained queue entry goes. A lock that was
// passed on in this process has one, of the waiter that it was passed to. The
// end of the lock removes that entry from the queue at the server, too.
type retained struct{ *Lease }

// endWith ends the retained queue entry of a lock together with what release
// sends, which names the entry.
func (l retained) endWith(release func() error) error {
	entry := l.takeEntry()
	err := release()
	entry.LeaveWith(err)
	return err
}

// end ends the retained queue entry of a lock that has ended for the reason
// why. Each later release names the entry.
func (l retained) end(why error) { l.takeEntry().LeaveWith(why) }

// takeEntry returns the retained queue entry of a lock that ends. The release
// of the lock removes the entry from the queue.
func (l retained) takeEntry() *waitqueue.Entry {
	l.Mu.Lock()
	defer l.Mu.Unlock()
	if l.passes == 0 {
		return nil
	}
	entry := l.client.Queue.TakeRetained(l.client.RedisKey(l.Name))
	if entry != nil {
		l.retain(entry.Name)
	}
	return entry
}
