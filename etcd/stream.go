package etcdlock

import (
	"context"
	"strconv"
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

// openStream returns the stream, and opens one if there is none.
func (l *Locker) openStream() *stream {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stream != nil {
		return l.stream
	}
	l.streams++
	s := &stream{ctx: metadata.AppendToOutgoingContext(l.life, "relock-stream", strconv.Itoa(l.streams))}
	ctx, end := context.WithCancel(s.ctx)
	s.end = end
	if !l.tasks.Start(func() { l.keepStream(ctx, s) }) {
		end() // the Locker is closed, and with it all watches
		return s
	}
	l.stream = s
	return s
}

func (l *Locker) keepStream(ctx context.Context, s *stream) {
	for range l.client.Watch(clientv3.WithRequireLeader(ctx), l.config.prefix+"stream", clientv3.WithFilterPut()) {
		continue
	}
	l.leaveStream(s)
}

// leaveStream makes the next watch open another stream. This one is closed with
// the last watch on it, after a delay. The delay is needed because the last
// watch may end while another one is being refused. Package clientv3 then waits
// forever, or leaves the stream open.
func (l *Locker) leaveStream(s *stream) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stream == s {
		l.stream = nil
		time.AfterFunc(l.limit(), s.end) // with Close at the latest
	}
}
