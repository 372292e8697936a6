// Package faults provides a proxy in front of a Redis server, for tests. It
// distinguishes requests from replies. It can lose, delay, double, hold back or
// falsify chosen ones.
package faults

import (
	"bufio"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/relock-go/relock/internal/test/redistest"
)

// Request is one command that the proxy received, whether it was forwarded or
// not.
type Request struct {
	Name string   // in upper case
	Args []string // all words, including the name as it was sent
	At   time.Time
}

// Every selects all matching requests, in place of the number that On takes.
const Every = 0

// Proxy forwards each connection to its own connection to the server. Its
// methods are safe for concurrent use.
type Proxy struct {
	Network, Address string // where it listens

	tb            testing.TB
	serverNetwork string
	server        string
	done          chan struct{} // closed when the test ends
	pipes         sync.WaitGroup
	listening     sync.WaitGroup
	mu            sync.Mutex
	listener      net.Listener // nil while connections are refused
	open          map[*pipe]struct{}
	rules         []*rule
	seen          []Request
	changed       chan struct{} // closed and replaced when seen grows
	held          [][]byte      // copies for Release
	flowing       chan struct{} // closed unless stalled
}

// rule applies an action to the n-th request that matches.
type rule struct {
	match  Match
	n      int
	action Action
	count  int
	once   sync.Once
	done   chan struct{}
}

// complete notifies the test that the action was carried out.
func (r *rule) complete() {
	if r != nil {
		r.once.Do(func() { close(r.done) })
	}
}

// Start runs a proxy in front of the server until the test ends. It listens on
// a free port of 127.0.0.1 if network is "tcp", otherwise on a unix socket.
func Start(tb testing.TB, network, address string) *Proxy {
	tb.Helper()
	p := &Proxy{
		Network: network, tb: tb, serverNetwork: network, server: address,
		done: make(chan struct{}), open: map[*pipe]struct{}{}, changed: make(chan struct{}), flowing: make(chan struct{}),
	}
	close(p.flowing)
	if p.Address = "127.0.0.1:0"; network == "unix" {
		p.Address = filepath.Join(redistest.TempDir(tb), "faults.sock")
	}
	p.Accept()
	tb.Cleanup(p.stop)
	return p
}

// On applies an action to the n-th matching request from now on, or to Every
// one. Requests are counted over all connections. If several rules apply, the
// oldest is used, but all of them count the request.
//
// The channel is closed once the action was first carried out. By then the
// server has executed its part, and the client has the reply if it gets one. On
// a subscribed connection, replies are messages like others. The action is not
// applied to the reply there, and its channel stays open.
func (p *Proxy) On(match func(args []string) bool, n int, action Action) <-chan struct{} {
	r := &rule{match: match, n: n, action: action, done: make(chan struct{})}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rules = append(p.rules, r)
	return r.done
}

// take records a request. It returns the action and the rule that applies.
func (p *Proxy) take(raw []byte, args []string) (Action, *rule) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var applies *rule
	for _, r := range p.rules {
		if !r.match(args) {
			continue
		}
		r.count++
		if applies == nil && (r.n == Every || r.n == r.count) {
			applies = r
		}
	}
	action := forward
	if applies != nil {
		action = applies.action
	}
	if action.hold {
		p.held = append(p.held, raw)
	}
	p.seen = append(p.seen, Request{Name: strings.ToUpper(args[0]), Args: args, At: time.Now()})
	close(p.changed)
	p.changed = make(chan struct{})
	return action, applies
}

// Seen returns the requests so far.
func (p *Proxy) Seen() []Request {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]Request(nil), p.seen...)
}

// Count returns the number of matching requests so far.
func (p *Proxy) Count(match func(args []string) bool) int {
	n, _ := p.count(match)
	return n
}

func (p *Proxy) count(match Match) (n int, changed <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.seen {
		if match(c.Args) {
			n++
		}
	}
	return n, p.changed
}

// Await waits until n matching requests came, and reports whether they came
// within limit.
func (p *Proxy) Await(match func(args []string) bool, n int, limit time.Duration) bool {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for {
		got, changed := p.count(match)
		if got >= n {
			return true
		}
		select {
		case <-changed:
		case <-timer.C:
			return false
		case <-p.done:
			return false
		}
	}
}

// Release sends the kept copies to the server, each on its own connection, and
// waits until they are executed. It returns the first lines of the replies. No
// client gets these replies.
func (p *Proxy) Release() []string {
	p.tb.Helper()
	p.mu.Lock()
	held := p.held
	p.held = nil
	p.mu.Unlock()
	var answers []string
	for _, raw := range held {
		answer, err := p.deliver(raw)
		if err != nil {
			p.tb.Fatalf("faults: deliver a copy: %v", err)
		}
		line, _, _ := strings.Cut(string(answer), "\r\n")
		answers = append(answers, line)
	}
	return answers
}

func (p *Proxy) deliver(raw []byte) ([]byte, error) {
	conn, err := p.dial()
	if err != nil {
		return nil, err
	}
	defer conn.Close() //nolint:errcheck // the reply was read
	if err := conn.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		return nil, err
	}
	if _, err := conn.Write(raw); err != nil {
		return nil, err
	}
	return readAnswer(bufio.NewReader(conn), nil)
}
