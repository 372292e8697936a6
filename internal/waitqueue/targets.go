package waitqueue

// targets are what messages notify besides entries: RedLock calls, and
// receivers of task queues. They are guarded by base.mu.
type targets struct {
	*base
	lines *lines // have the entries

	byName map[string]*target
	counts map[string]int // by the key about which they are notified
}

// target is a function that messages call.
type target struct {
	redisKey string
	wake     func()
	wakeups  wakeupLimit
}

func newTargets(b *base, l *lines) *targets {
	return &targets{base: b, lines: l, byName: map[string]*target{}, counts: map[string]int{}}
}

// Listen calls wake when a message about the key names the target, and when a
// channel for the key is confirmed or lost. wake must not block. Each Listen
// has its Unlisten.
func (t *targets) Listen(redisKey, name string, wake func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.byName[name] = &target{redisKey: redisKey, wake: wake}
	t.counts[redisKey]++
}

// Unlisten undoes Listen, if that was called.
func (t *targets) Unlisten(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if of := t.byName[name]; of != nil {
		delete(t.byName, name)
		if t.counts[of.redisKey]--; t.counts[of.redisKey] == 0 {
			delete(t.counts, of.redisKey)
		}
	}
}

// Notify handles a message: an entry may take the lock, or a target is due.
// name is the name of the target or the entry, or the hold of the entry. The
// server's record of an unknown one is removed, so that the next one is
// notified. A hold is not released for that, since it may just have been
// granted.
func (t *targets) Notify(name, redisKey string) {
	t.mu.Lock()
	of := t.byName[name]
	now := of != nil && of.wakeups.allow(t.base, func() { t.Notify(name, redisKey) })
	t.mu.Unlock()
	switch {
	case of == nil:
		t.lines.notify(name, redisKey, true)
	case now:
		of.wake()
	}
}

// wake notifies a receiver of tasks. One that no longer waits has left the
// server's list, and the server has notified another one.
func (t *targets) wake(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if of := t.byName[name]; of != nil {
		of.wake()
	}
}

// check notifies the targets that have their messages on the channel of a key,
// or all if it is ""; mu is held.
func (t *targets) check(key string) {
	for _, of := range t.byName {
		if key == "" || of.redisKey == key {
			of.wake()
		}
	}
}
