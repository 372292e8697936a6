package etcdlock

import (
	"context"
	"strconv"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/metadata"
)

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
