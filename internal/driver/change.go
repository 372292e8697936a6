package driver

import "context"

// Watch calls changed whenever the topology has changed, until the router is
// closed. It is called once.
func (r *Router) Watch(changed func()) {
	if r.topology.Changes == nil {
		return
	}
	r.tasks.Start(func() {
		for {
			select {
			case _, ok := <-r.topology.Changes:
				if !ok {
					return
				}
				r.change()
				changed()
			case <-r.life.Done():
				return
			}
		}
	})
}

// change forgets where the keys were, and cuts the connections to nodes that
// are no master any more. Nothing then waits for a server that is gone. If the
// topology does not say which nodes there are, nothing is cut.
func (r *Router) change() {
	masters, err := r.masters(context.Background())
	r.mu.Lock()
	clear(r.known)
	gone := map[*node]bool{}
	for _, n := range r.nodes {
		gone[n] = err == nil
	}
	for i, n := range masters {
		if gone[n] = false; i == 0 {
			r.hint = n
		}
	}
	r.mu.Unlock()
	for n, is := range gone {
		if is {
			n.cut()
		}
	}
}

// cut closes the connections under all calls. Further calls open new ones.
func (d *Pool) cut() {
	d.noteBreak()
	d.sockets.cut()
}
