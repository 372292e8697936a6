// Package faults is a proxy in front of a Redis server that knows requests from answers, and can lose, delay, double, hold back or
// falsify chosen ones. It is for tests.
package faults

import (
	"bufio"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// Request is one command that came to the proxy, whether it was forwarded or not.
type Request struct {
	Name string   // in capitals
	Args []string // all words, the name as it was sent included
	At   time.Time
}

// Every stands for all matching requests, where On takes the number of one.
const Every = 0

// Proxy forwards each connection to a connection of its own to the server. Its methods can be called from any goroutine.
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

// complete tells the test that the action was carried out.
func (r *rule) complete() {
	if r != nil {
		r.once.Do(func() { close(r.done) })
	}
}

// Start runs a proxy in front of the server until the test ends: on a unix socket, or on a free port of 127.0.0.1 where network is "tcp".
func Start(tb testing.TB, network, address string) *Proxy {
	tb.Helper()
	p := &Proxy{
		Network: network, tb: tb, serverNetwork: network, server: address,
		done: make(chan struct{}), open: map[*pipe]struct{}{}, changed: make(chan struct{}), flowing: make(chan struct{}),
	}
	close(p.flowing)
	if p.Address = "127.0.0.1:0"; network == "unix" {
		p.Address = filepath.Join(tempDir(tb), "faults.sock")
	}
	p.Accept()
	tb.Cleanup(p.stop)
	return p
}

// tempDir is shorter than tb.TempDir: the path of a unix socket has some 100 bytes at most.
func tempDir(tb testing.TB) string {
	tb.Helper()
	dir, err := os.MkdirTemp("", "faults")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// On applies an action to the n-th request from now on that matches, counted over all connections, or to Every one. Where several rules
// apply, the oldest does; all of them count. The channel is closed when the action was first carried out: the server has executed what it
// was to execute, and the client has the answer if it gets one. On a connection that has subscribed, answers are messages like others: what an
// action does to the answer is not done there, and its channel stays open.
func (p *Proxy) On(match func(args []string) bool, n int, action Action) <-chan struct{} {
	r := &rule{match: match, n: n, action: action, done: make(chan struct{})}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rules = append(p.rules, r)
	return r.done
}

// take books a request, and returns what to do with it and the rule that says so.
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

// Seen returns the requests that came so far.
func (p *Proxy) Seen() []Request {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]Request(nil), p.seen...)
}

// Count returns how many requests came so far that match.
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

// Await waits until n requests came that match, and says whether they did within limit.
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

// Release delivers the copies that were held back, each on a connection of its own, and waits until the server has executed them. It
// returns the first lines of the answers, which nobody else gets to see.
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
	conn, err := net.Dial(p.serverNetwork, p.server)
	if err != nil {
		return nil, err
	}
	defer conn.Close() //nolint:errcheck // the answer is there
	if err := conn.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		return nil, err
	}
	if _, err := conn.Write(raw); err != nil {
		return nil, err
	}
	return readAnswer(bufio.NewReader(conn), nil)
}
