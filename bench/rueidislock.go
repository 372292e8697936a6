package main

import (
	"context"
	"fmt"

	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
)

// rueidisLibrary is woken by the server when a key that it has read changes. By
// default a lock is two of three keys on the one server.
type rueidisLibrary struct{ locks rueidislock.Locker }

func newRueidis(address string, _ int) (library, error) { return rueidisWith(address, 0) }

func newRueidisOneKey(address string, _ int) (library, error) { return rueidisWith(address, 1) }

// rueidisWith sets how many keys are a majority; 0 means the default.
func rueidisWith(address string, majority int32) (library, error) {
	locks, err := rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption: rueidis.ClientOption{InitAddress: []string{address}}, KeyMajority: majority, NoLoopTracking: true,
	})
	if err != nil {
		return nil, fmt.Errorf("rueidislock: %w", err)
	}
	return &rueidisLibrary{locks}, nil
}

func (l *rueidisLibrary) mutex(key string) mutex { return &rueidisMutex{locks: l.locks, key: key} }

func (l *rueidisLibrary) close() { l.locks.Close() }

type rueidisMutex struct {
	locks  rueidislock.Locker
	key    string
	cancel context.CancelFunc
}

func (m *rueidisMutex) Lock(ctx context.Context) (err error) {
	_, m.cancel, err = m.locks.WithContext(ctx, m.key)
	return err
}

// Unlock returns when the keys are deleted.
func (m *rueidisMutex) Unlock(context.Context) error {
	m.cancel()
	return nil
}
