package etcdlock

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/metadata"
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

// stream is the connection to the server that the watches of a Locker share.
// Package clientv3 closes it with the last watch on it, and opens another with
// the next watch. For that, users with a password log in again. So a watch that
// reports nothing keeps the stream open.
//
// The server checks the rights of each new watch by the token with which the
// stream was opened. When that token is no longer valid, other watches go on,
// but new ones need another stream.
type stream struct {
	// The context of the watches. Package clientv3 distinguishes the streams of
	// a client by the metadata in their contexts, so each stream has its own.
	ctx context.Context
	end context.CancelFunc
}

// streams has the stream of one Locker.
type streams struct {
	*server
	mu      sync.Mutex // is taken last
	current *stream    // nil if there is none
	opened  int        // number so far
}

// open returns the stream, and opens one if there is none.
func (all *streams) open() *stream {
	all.mu.Lock()
	defer all.mu.Unlock()
	if all.current != nil {
		return all.current
	}
	all.opened++
	s := &stream{ctx: metadata.AppendToOutgoingContext(all.life, "relock-stream", strconv.Itoa(all.opened))}
	ctx, end := context.WithCancel(s.ctx)
	s.end = end
	if !all.tasks.Start(func() { all.keep(ctx, s) }) {
		end() // the Locker is closed, and with it all watches
		return s
	}
	all.current = s
	return s
}

func (all *streams) keep(ctx context.Context, s *stream) {
	for range all.client.Watch(clientv3.WithRequireLeader(ctx), all.prefix+"stream", clientv3.WithFilterPut()) {
		continue
	}
	all.leave(s)
}

// leave makes the next watch open another stream. This one is closed with the
// last watch on it, after a delay. The delay is needed because the last watch
// may end while another one is being refused. Package clientv3 then waits
// forever, or leaves the stream open.
func (all *streams) leave(s *stream) {
	all.mu.Lock()
	defer all.mu.Unlock()
	if all.current == s {
		all.current = nil
		time.AfterFunc(all.limit(), s.end) // with Close at the latest
	}
}
