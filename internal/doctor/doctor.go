// Package doctor finds what may keep a server from serving locks. It tries each
// thing that locks need, on new keys.
//
// Locks are tried by the public API. The settings are read by plain commands,
// which that API does not send, from each master of the client.
package doctor

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/engine"
	"github.com/relock-go/relock/internal/redis/driver"
)

// Level is how bad a finding is.
type Level string

// The levels. Fail is what loses locks, or refuses them.
const (
	OK   Level = "ok"
	Warn Level = "warn"
	Fail Level = "FAIL"
)

// Finding is the result of one check.
type Finding struct {
	Check  string
	Level  Level
	Found  string
	Remedy string // empty if nothing needs to be done
}

// Options are what the checks depend on.
type Options struct {
	Prefix  string        // of the client
	Timeout time.Duration // of each check
	// Poll is how often the waiter polls that checks messages. It is notified
	// if it gets its lock in half of that.
	Poll time.Duration
}

// doctor is one run of the checks.
type doctor struct {
	Options
	client   *relock.Client
	key      string // new, so it names no lock of users
	findings []Finding
}

// Run checks the server of a client. It ends early if the server does not
// answer.
func Run(ctx context.Context, client *relock.Client, o Options) []Finding {
	d := &doctor{Options: o, client: client, key: "doctor/" + rand.Text()}
	if d.reachable(ctx) {
		start := d.readClock(ctx)
		d.roundTrip(ctx)
		d.server(ctx)
		d.permissions(ctx)
		d.plain(ctx)
		d.messages(ctx)
		d.clock(start, d.readClock(ctx))
	}
	return d.findings
}

func (d *doctor) find(check string, level Level, remedy, format string, args ...any) {
	d.findings = append(d.findings, Finding{check, level, fmt.Sprintf(format, args...), remedy})
}

// within calls f with the time of a check.
func (d *doctor) within(ctx context.Context, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, d.Timeout)
	defer cancel()
	return f(ctx)
}

func (d *doctor) reachable(ctx context.Context) bool {
	err := d.within(ctx, d.client.Ping)
	switch {
	case err == nil:
		d.find("server", OK, "", "answers")
	case errors.Is(err, relock.ErrDenied):
		d.find("server", Fail, "check the user, its password, and that it may PING", "%v", err)
	case errors.Is(err, relock.ErrInvalid):
		d.find("server", Fail, "connect to the master, by Sentinels or as a Cluster", "%v", err)
	default:
		d.find("server", Fail, "check the address, TLS, and that the server runs", "%v", err)
	}
	return err == nil
}

// eval runs a script that writes nothing.
func (d *doctor) eval(ctx context.Context, source string) (reply any, err error) {
	err = d.within(ctx, func(ctx context.Context) error {
		reply, err = d.client.Eval(ctx, relock.NewScript(source), []string{d.Prefix + d.key})
		return err
	})
	return reply, err
}

// masters returns the servers of the client that grant locks.
func (d *doctor) masters(ctx context.Context) (all []driver.Node, err error) {
	e := engine.Of(d.client)
	if e == nil {
		return nil, fmt.Errorf("%w: client: was not made by its constructor", relock.ErrInvalid)
	}
	err = d.within(ctx, func(ctx context.Context) error {
		all, err = e.Driver.Nodes(ctx)
		return driver.ContextErr(ctx, err)
	})
	return all, err
}

// ask sends a command to one server.
func (d *doctor) ask(ctx context.Context, n driver.Node, command string, args ...any) (reply any, err error) {
	err = d.within(ctx, func(ctx context.Context) error {
		o := n.Call(ctx, driver.Limits{}, driver.Request{Cmd: command, Args: args})
		reply = o.Reply
		return driver.ContextErr(ctx, o.Err)
	})
	return reply, err
}
