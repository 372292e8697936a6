package validity

import "hash/maphash"

// The grants of one key are linked, so that a waiter of the client can name one
// of them, and a notice of the server finds those that it means.

// place returns where the grants of a key are linked: its hash, which takes
// less memory than the key. Two keys may have one place.
func (b *Books) place(redisKey string) uint64 { return maphash.String(b.seed, redisKey) }

// link adds a grant to those of its key, as the newest; mu must be held.
func (b *Books) link(r *Renewal) {
	at := b.place(r.grant.LockKey())
	if r.next = b.grants[at]; r.next != nil {
		r.next.prev = r
	}
	b.grants[at] = r
}

// unlink undoes link. It does nothing for a grant that is not there; mu must be
// held.
func (b *Books) unlink(r *Renewal) {
	if !b.isLinked(r) {
		return
	}
	at := b.place(r.grant.LockKey())
	switch {
	case r.prev != nil:
		r.prev.next = r.next
	case r.next != nil:
		b.grants[at] = r.next
	default:
		delete(b.grants, at)
	}
	if r.next != nil {
		r.next.prev = r.prev
	}
	r.next, r.prev = nil, nil
}

// isLinked reports whether link was not undone; mu must be held.
func (b *Books) isLinked(r *Renewal) bool {
	return r.prev != nil || b.grants[b.place(r.grant.LockKey())] == r
}

// Of returns the grants of the key in Redis, the newest first.
func (b *Books) Of(redisKey string) (all []*Renewal) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for r := b.grants[b.place(redisKey)]; r != nil; r = r.next {
		if r.grant.LockKey() == redisKey {
			all = append(all, r)
		}
	}
	return all
}

// Await notes that a call waits for a grant. It reports whether none was known
// to wait for it before, and it has not ended.
func (b *Books) Await(r *Renewal) (first bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	first = !r.awaited && b.isLinked(r)
	r.awaited = r.awaited || first
	return first
}

// Grant returns what the Renewal is a part of.
func (r *Renewal) Grant() Renewable { return r.grant }
