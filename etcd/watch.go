package etcdlock

import (
	"context"
	"errors"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// recheck is after how long a wait looks for itself: a watch over a connection that is dead without knowing it tells
// nothing. A long TTL is no reason to wait longer for a lock that is free.
func (l *Locker) recheck() time.Duration { return 2 * min(l.config.ttl, maxRecheck/2) }

const maxRecheck = 30 * time.Second

// awaitDeletion waits until one of the keys is deleted, counting from a revision. It also returns, nil, when there is a
// reason to look for oneself: the watch is cut, what it would tell was compacted away, or it was silent for long.
func (w *wait) awaitDeletion(ctx context.Context, from int64, keys ...string) error {
	shared := w.locker.openStream()
	ctx, leave := both(shared.ctx, ctx) // ends with the Locker too
	defer leave()
	limited, cancel := context.WithTimeout(ctx, w.locker.recheck())
	defer cancel()
	heard := w.locker.watch(limited, from, keys)
	select {
	case err := <-heard:
		if err == nil {
			w.pauses = pauses{}
			break
		}
		w.locker.logger.Debug("relock: watch failed", "key", w.name, "reason", err.Error())
		if isStaleToken(err) {
			w.locker.leaveStream(shared)
		}
		sleep(limited, w.pauses.next())
	case <-limited.Done():
	}
	switch {
	case w.locker.life.Err() != nil:
		return w.locker.closed()
	case ctx.Err() != nil:
		return errLeft
	}
	return nil
}

// watch tells once that one of the keys is deleted, or why it cannot.
func (l *Locker) watch(ctx context.Context, from int64, keys []string) <-chan error {
	heard := make(chan error, len(keys))
	for _, key := range keys {
		l.tasks.start(func() { heard <- l.watchOne(ctx, from, key) })
	}
	return heard
}

var errWatchCut = errors.New("watch was cut")

func (l *Locker) watchOne(ctx context.Context, from int64, key string) error {
	events := l.client.Watch(clientv3.WithRequireLeader(ctx), key, clientv3.WithRev(from), clientv3.WithFilterPut())
	for {
		select {
		case r, ok := <-events:
			switch {
			case !ok:
				return errWatchCut
			case r.CompactRevision != 0:
				return nil
			case r.Err() != nil:
				return explain(r.Err())
			case len(r.Events) > 0:
				return nil
			}
		case <-ctx.Done():
			return nil
		}
	}
}
