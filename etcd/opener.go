package etcdlock

// opener opens sessions, one at a time.
type opener struct {
	*sessions
	next *opening // guarded by mu; nil if none is under way
}

// opening is a lease that is being granted, for all calls that wait for it.
type opening struct {
	done chan struct{}
	err  error
}

// enter makes a claim one of the users of a session with room. If there is
// none, it returns the opening of the next one. It returns neither if the
// Locker is closed.
func (o *opener) enter() (*session, *opening) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if s := o.roomyLocked(); s != nil {
		s.users++
		return s, nil
	}
	if o.next == nil {
		next := &opening{done: make(chan struct{})}
		if o.tasks.Start(func() { o.open(next) }) {
			o.next = next
		}
	}
	return nil, o.next
}

// open grants the lease that the calls wait for. It renews the lease until
// the session ends.
func (o *opener) open(next *opening) {
	s, err := o.grantLease(o.life, o.config.ttl, false)
	o.mu.Lock()
	o.next, next.err = nil, err
	o.mu.Unlock()
	close(next.done)
	if s != nil {
		o.tasks.Start(o.warnOfOldServers)
		keeper{o.sessions, s}.keep()
	}
}
