package etcdlock

import (
	"log/slog"
	"sync"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/relock-go/relock"
)

// Locker provides locks in etcd by name. Its holds share leases, up to 128 keys
// each. The first lease is granted with the first lock. The Locker renews them
// until [Locker.Close]. It can be used from any goroutine.
type Locker struct {
	*server
	crowded  *crowded // which locks others want
	slots    *slots
	streams  *streams
	lines    *lines
	outages  *outages
	sessions *sessions
	holders  *holders
	opener   opener
	closing  sync.Once
	unfollow func() bool // stops following the client
}

var _ relock.Locker = (*Locker)(nil)

// NewLocker returns a Locker on the client, which stays the caller's: Close
// leaves it open. It sends nothing. All mistakes are in one error that matches
// [relock.ErrInvalid].
func NewLocker(client *clientv3.Client, opts ...Option) (*Locker, error) {
	c := newConfig(opts)
	if client == nil {
		c.addMistake("client: is nil")
	}
	if err := c.err(); err != nil {
		return nil, wrap("new locker", "", err)
	}
	l := &Locker{server: newServer(client, c), crowded: newCrowded(), slots: newSlots()}
	l.streams = &streams{server: l.server}
	l.lines = newLines(l.streams)
	l.outages = newOutages(l.server)
	l.sessions = newSessions(l.server)
	l.opener.sessions = l.sessions
	l.holders = newHolders(l.sessions)
	l.followClient()
	return l, nil
}

// Logger returns the logger of [WithLogger]. A [relock.Leader] logs there why
// its campaigns fail.
func (l *Locker) Logger() *slog.Logger {
	if l.server == nil {
		return nil
	}
	return l.logger
}

// String names it.
func (l *Locker) String() string { return "locker of etcd" }
