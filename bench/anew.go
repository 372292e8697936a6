package main

import "context"

// The locks as a handler makes them, and as README shows it: a new one for each
// turn. bsm/redislock, rueidislock and raw redigo have no others.
const (
	oursAnew    = "relock made anew"
	redsyncAnew = "redsync redigo made anew"
)

// anew makes each lock of a library anew.
func anew(connect connector) connector {
	return func(address string, goroutines int) (library, error) {
		l, err := connect(address, goroutines)
		return anewLibrary{l}, err
	}
}

type anewLibrary struct{ library }

func (l anewLibrary) mutex(key string) mutex { return &anewMutex{library: l.library, key: key} }

type anewMutex struct {
	library library
	key     string
	made    mutex // of this turn
}

func (m *anewMutex) Lock(ctx context.Context) error {
	m.made = m.library.mutex(m.key)
	return m.made.Lock(ctx)
}

func (m *anewMutex) Unlock(ctx context.Context) error { return m.made.Unlock(ctx) }
