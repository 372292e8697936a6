package etcdlock

import (
	"context"
	"errors"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// watches notify one wait when keys are deleted. They only say when to check.
// Whether the lock is free is in the answer to a request.
//
// A watch begins when it is created. etcd serves a watch that begins in the
// past only every 100 ms. concurrency.Mutex waits for that if a hold is shorter
// than the registration of the next watch. Here the wait checks for itself what
// happened up to the creation.
type watches struct {
	streams *streams
	heard   chan notice
	open    map[string]context.CancelFunc
}

type notice struct {
	rev    int64   // what happened up to it must be checked
	err    error   // why the watch has ended; nil while it is open
	stream *stream // of the watch
}

func (all *streams) newWatches() *watches {
	return &watches{streams: all, heard: make(chan notice), open: map[string]context.CancelFunc{}}
}

// add watches a key, unless it already does. If from is 0, the watch begins
// now, and its creation is a notice too.
func (ws *watches) add(key string, from int64) {
	if ws.open[key] != nil {
		return
	}
	s := ws.streams.open()
	ctx, cancel := context.WithCancel(s.ctx)
	ws.open[key] = cancel
	ws.streams.tasks.Start(func() { ws.follow(ctx, s, key, from) })
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

// follow passes on the newest notice of one watch, until the watch has ended.
func (ws *watches) follow(ctx context.Context, s *stream, key string, from int64) {
	opts := []clientv3.OpOption{clientv3.WithRev(from), clientv3.WithFilterPut()}
	if from == 0 {
		opts = append(opts, clientv3.WithCreatedNotify())
	}
	events := ws.streams.client.Watch(clientv3.WithRequireLeader(ctx), key, opts...)
	var next notice
	var out chan<- notice // nil if there is nothing to pass on
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
	case r.Err() != nil: // also after a compaction
		return notice{err: explain(r.Err())}
	case last >= 0:
		return notice{rev: r.Events[last].Kv.ModRevision}
	}
	return notice{rev: r.Header.Revision} // the creation
}
