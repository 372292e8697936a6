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

// watches notify one wait of the deletion of keys. They only say when to look:
// whether the lock is free, the answer to a request says.
//
// A watch begins at its creation. etcd serves one that begins in the past only
// each 100 ms, which is what concurrency.Mutex waits for when a hold is shorter
// than the registration of the next watch. What came up to the creation is to
// be looked at instead.
type watches struct {
	locker *Locker
	heard  chan notice
	open   map[string]context.CancelFunc
}

// notice is what a watch has told.
type notice struct {
	rev    int64   // what came up to it is to be looked at
	err    error   // why the watch has ended; nil while it is open
	stream *stream // of the watch
}

func (l *Locker) newWatches() *watches {
	return &watches{locker: l, heard: make(chan notice), open: map[string]context.CancelFunc{}}
}

// add watches a key, unless it does. With from = 0 the watch begins now, and
// its creation is a notice too.
func (ws *watches) add(key string, from int64) {
	if ws.open[key] != nil {
		return
	}
	s := ws.locker.openStream()
	ctx, cancel := context.WithCancel(s.ctx)
	ws.open[key] = cancel
	ws.locker.tasks.Start(func() { ws.follow(ctx, s, key, from) })
}

// drop ends the watch of a key, if there is one.
func (ws *watches) drop(key string) {
	if end := ws.open[key]; end != nil {
		end()
		delete(ws.open, key)
	}
}

func (ws *watches) close() {
	for key := range ws.open {
		ws.drop(key)
	}
}

// follow passes the newest notice of one watch on, until it has ended.
func (ws *watches) follow(ctx context.Context, s *stream, key string, from int64) {
	opts := []clientv3.OpOption{clientv3.WithRev(from), clientv3.WithFilterPut()}
	if from == 0 {
		opts = append(opts, clientv3.WithCreatedNotify())
	}
	events := ws.locker.client.Watch(clientv3.WithRequireLeader(ctx), key, opts...)
	var next notice
	var out chan<- notice // nil while there is nothing to pass on
	for next.err == nil || out != nil {
		select {
		case r, ok := <-events:
			next, out = noticeOf(r, ok), ws.heard
			next.stream = s
			if next.err != nil {
				events = nil
			}
		case out <- next:
			out = nil
		case <-ctx.Done():
			return
		}
	}
}

var errWatchCut = errors.New("watch was cut")

func noticeOf(r clientv3.WatchResponse, ok bool) notice {
	switch last := len(r.Events) - 1; {
	case !ok:
		return notice{err: errWatchCut}
	case r.Err() != nil: // compacted, too
		return notice{err: explain(r.Err())}
	case last >= 0:
		return notice{rev: r.Events[last].Kv.ModRevision}
	}
	return notice{rev: r.Header.Revision} // the creation
}

// await waits for a notice of something after the revision at, and returns the
// revision that the look must have reached. It returns 0, and has closed the
// watches, when the wait is to look without a notice: a watch has failed, or
// was silent for long.
func (w *wait) await(ctx context.Context, ws *watches, at int64) (rev int64, err error) {
	limited, cancel := context.WithTimeout(ctx, w.locker.recheck())
	defer cancel()
	for {
		select {
		case n := <-ws.heard:
			if n.err == nil && n.rev <= at {
				continue
			}
			if n.err == nil {
				w.pauses = pauses{}
				return n.rev, nil
			}
			w.watchFailed(limited, n)
		case <-limited.Done():
		case <-w.locker.life.Done():
		}
		ws.close()
		switch {
		case w.locker.life.Err() != nil:
			return 0, w.locker.closed()
		case ctx.Err() != nil:
			return 0, errLeft
		}
		return 0, nil
	}
}

// watchFailed pauses before the watch is asked for again.
func (w *wait) watchFailed(ctx context.Context, n notice) {
	w.locker.logger.Debug("relock: watch failed", "key", w.name, "reason", n.err.Error())
	if isStaleToken(n.err) {
		w.locker.leaveStream(n.stream)
	}
	sleep(ctx, w.pauses.next())
}
