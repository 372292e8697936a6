package etcdlock

import (
	"context"
	"hash/maphash"
	"log/slog"
	"sync"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/outage"
	"github.com/relock-go/relock/internal/suspend"
)

// Locker provides locks in etcd by name. Its holds share leases, up to 128 keys
// each. The first lease is granted with the first lock. The Locker renews them
// until [Locker.Close]. It can be used from any goroutine.
type Locker struct {
	*server
	logger   *slog.Logger
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

// NewLocker returns a Locker that uses client. Close leaves the client open.
// NewLocker sends nothing. All invalid arguments are in one error that matches
// [relock.ErrInvalid].
func NewLocker(client *clientv3.Client, opts ...Option) (*Locker, error) {
	c := newConfig(opts)
	if client == nil {
		c.addMistake("client: is nil")
	}
	if err := c.err(); err != nil {
		return nil, wrap("new locker", "", err)
	}
	to := newServer(client, c)
	l := &Locker{
		server: to, logger: c.logger, crowded: &crowded{seed: maphash.MakeSeed()},
		slots: &slots{locks: map[string]*numbers{}}, streams: &streams{server: to}, outages: &outages{server: to},
	}
	l.sessions = &sessions{server: to, leases: map[*session]struct{}{}, forgets: forgetAtOnce}
	l.sessions.monitor = suspend.NewMonitor(suspend.MachineClocks(), c.logger,
		l.sessions.suspendedLocked, l.sessions.monitorSuspend)
	l.outages.log = outage.New(c.logger, func(f func()) { to.tasks.Start(f) })
	l.lines = &lines{streams: l.streams, byName: map[string]*line{}}
	l.opener.sessions = l.sessions
	l.holders = &holders{sessions: l.sessions, owners: map[ownerKey]*owner{}, held: map[string]*grant{}}
	l.unfollow = context.AfterFunc(client.Ctx(), func() { to.tasks.Start(l.closeWithClient) })
	return l, nil
}

// Logger returns the logger of [WithLogger]. A [relock.Leader] logs there why
// its campaigns fail.
func (l *Locker) Logger() *slog.Logger { return l.logger }

// String names it.
func (l *Locker) String() string { return "locker of etcd" }
