package goredis

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/relock-go/relock/internal/driver"
)

// When a client of Sentinels checks which server is the master. Each check asks
// a Sentinel, and opens a connection to the master.
const (
	restPause = 10 * time.Second
	alarmTime = 5 * time.Second // after the last failure, checks are frequent
)

// failover is the topology of a client of Sentinels. The client's dialer
// connects to the current master, whatever the address, and says nothing of
// changes. So the remote address of a new connection names the master.
type failover struct {
	*checks

	connect func(ctx context.Context) (net.Conn, error)

	// These are guarded by mu.
	address string    // of the master, empty before the first connection
	asOf    time.Time // when the dial began that has found it
	failed  time.Time // when the master failed last
}

func newFailover(connect func(ctx context.Context) (net.Conn, error)) *failover {
	return &failover{checks: newChecks(), connect: connect}
}

// master returns the master from memory. Only before the first connection it
// waits for a check.
func (f *failover) master(ctx context.Context, _ string) (string, error) {
	f.begin.Do(func() { f.tasks.Start(f.watch) })
	address, checked, _ := f.state()
	if address != "" {
		driver.Unkept(ctx)
		return address, nil
	}
	if err := f.await(ctx, checked); err != nil {
		return "", err
	}
	address, _, err := f.state()
	if address != "" {
		return address, nil
	}
	return "", err
}

func (f *failover) masters(ctx context.Context) ([]string, error) {
	address, err := f.master(ctx, "")
	if err != nil {
		return nil, err
	}
	return []string{address}, nil
}

func (f *failover) state() (address string, checked chan struct{}, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.address, f.checked, f.err
}

// dial connects to the master. It fails if that is not the server with this
// address any more.
func (f *failover) dial(ctx context.Context, address string) (net.Conn, error) {
	began := time.Now()
	c, err := f.connect(ctx)
	if err != nil || c == nil {
		return nil, err
	}
	found := nameOf(c)
	f.learn(found, began)
	if master, _, _ := f.state(); found == address && found == master {
		return c, nil
	}
	_ = c.Close() // not used yet
	return nil, &net.OpError{Op: "dial", Net: "tcp", Err: fmt.Errorf("%s is not the master any more", address)}
}

// nameOf returns the name of the server at the other end.
func nameOf(c net.Conn) string {
	if a := c.RemoteAddr(); a != nil && a.String() != "" {
		return a.String()
	}
	return addrOfFailover
}

// learn notes the master that a dial has found. A dial that began before
// another one may have found the previous master.
func (f *failover) learn(address string, began time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if began.Before(f.asOf) {
		return
	}
	f.asOf = began
	if address == f.address {
		return
	}
	if f.address != "" {
		signal(f.changes)
	}
	f.address, f.failed = address, time.Time{}
}

// invalidate begins checks if the address is that of the master.
func (f *failover) invalidate(address string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if address == f.address {
		f.failed = time.Now()
		signal(f.wake)
	}
}

// watch checks which server is the master, until close.
func (f *failover) watch() {
	for f.restUntilDue() {
		f.check()
	}
}

// restUntilDue waits until the next check is due. It reports whether there is
// one.
func (f *failover) restUntilDue() bool {
	pause, wake := restPause, f.wake
	if f.isAlarmed() {
		pause, wake = shortPause(), nil
	}
	return f.rest(pause, wake)
}

// isAlarmed reports whether the master failed a short time ago.
func (f *failover) isAlarmed() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return time.Since(f.failed) < alarmTime
}

// check asks the dialer for the master.
func (f *failover) check() {
	ctx, cancel := context.WithTimeout(f.life, checkLimit)
	defer cancel()
	began := time.Now()
	c, err := f.tryConnect(ctx)
	if err == nil {
		f.learn(nameOf(c), began)
		_ = c.Close() // only its address counts
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.conclude(err)
}

// tryConnect connects. A panic of the user's dialer is an error.
func (f *failover) tryConnect(ctx context.Context) (c net.Conn, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("dialer panicked: %v", p)
		}
	}()
	if c, err = f.connect(ctx); err == nil && c == nil {
		err = errNoConn
	}
	return c, err
}

var errNoConn = errors.New("dialer returned neither a connection nor an error")
