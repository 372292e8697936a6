package validity

import (
	"hash/maphash"
	"sync"
)

// places have the grants of a client that have not ended. Those of one key are
// linked, so that a waiter of the client can name one of them, and a notice of
// the server finds those that it means.
type places struct {
	seed maphash.Seed

	mu     sync.Mutex
	sealed bool
	newest map[uint64]*Renewal // the newest one of each place, linked with the others
}

func newPlaces() *places { return &places{seed: maphash.MakeSeed(), newest: map[uint64]*Renewal{}} }

// place returns where the grants of a key are linked: its hash, which takes
// less memory than the key. Two keys may have one place.
func (p *places) place(redisKey string) uint64 { return maphash.String(p.seed, redisKey) }

// link adds a grant to those of its key, as the newest. It reports whether it
// did: sealed places take no grant.
func (p *places) link(r *Renewal) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.sealed {
		return false
	}
	at := p.place(r.grant.LockKey())
	if r.next = p.newest[at]; r.next != nil {
		r.next.prev = r
	}
	p.newest[at] = r
	return true
}

// unlink undoes link. It does nothing for a grant that is not there.
func (p *places) unlink(r *Renewal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.isLinked(r) {
		return
	}
	at := p.place(r.grant.LockKey())
	switch {
	case r.prev != nil:
		r.prev.next = r.next
	case r.next != nil:
		p.newest[at] = r.next
	default:
		delete(p.newest, at)
	}
	if r.next != nil {
		r.next.prev = r.prev
	}
	r.next, r.prev = nil, nil
}

// isLinked reports whether link was not undone; mu must be held.
func (p *places) isLinked(r *Renewal) bool {
	return r.prev != nil || p.newest[p.place(r.grant.LockKey())] == r
}

// All returns the grants.
func (p *places) All() []*Renewal {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := make([]*Renewal, 0, len(p.newest))
	for _, r := range p.newest {
		for ; r != nil; r = r.next {
			all = append(all, r)
		}
	}
	return all
}

// Of returns the grants of the key in Redis, the newest first.
func (p *places) Of(redisKey string) (all []*Renewal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for r := p.newest[p.place(redisKey)]; r != nil; r = r.next {
		if r.grant.LockKey() == redisKey {
			all = append(all, r)
		}
	}
	return all
}

// Await notes that a call waits for a grant. It reports whether none was known
// to wait for it before, and it has not ended.
func (p *places) Await(r *Renewal) (first bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	first = !r.awaited && p.isLinked(r)
	r.awaited = r.awaited || first
	return first
}

// Seal refuses further grants, for the Close of the client.
func (p *places) Seal() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sealed = true
}
