package etcdlock

import (
	"context"
	"strconv"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/metadata"
)

// stream is the connection to the server that the watches of a Locker share. Package clientv3 closes it with the last watch
// on it, and opens another with the next one, for which users with a password log in anew: a watch that tells nothing
// keeps it open.
//
// The server asks for the rights of each new watch by the token that the stream was opened with. When that is no longer
// good, other watches go on, and new ones need another stream.
type stream struct {
	ctx context.Context // of the watches; with metadata of its own, by which package clientv3 tells the streams of a client apart
	end context.CancelFunc
}

// openStream returns the stream, and opens it where there is none.
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

// leaveStream has the next watch open another one. This one is closed with the last watch on it, after a while: package
// clientv3 waits for ever, or leaves the stream open, when the last watch ends while another one is being refused.
func (l *Locker) leaveStream(s *stream) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stream == s {
		l.stream = nil
		time.AfterFunc(l.limit(), s.end) // with Close at the latest
	}
}
