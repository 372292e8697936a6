package etcdlock

import (
	"hash/maphash"
	"sync/atomic"
)

// crowded notes of each lock whether the last claim of this Locker found others
// there. If not, the next claim first sends the shortest request, which is
// granted only if the folder is empty, and does not read what is in it. Locks
// share notes, by a hash of their names. So the notes need no more room for
// many locks. A wrong note costs a request.
type crowded struct {
	seed  maphash.Seed
	notes [1024]atomic.Bool
}

// of returns the note of a lock.
func (c *crowded) of(name string) *atomic.Bool {
	return &c.notes[maphash.String(c.seed, name)%uint64(len(c.notes))]
}
