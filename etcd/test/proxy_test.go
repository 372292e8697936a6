package test

import (
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// proxy is between clients and a member. Like a network that is cut, it can be
// silent: connections stay open, and nothing passes.
type proxy struct {
	address  string
	target   string
	listener net.Listener
	pipes    sync.WaitGroup

	mu      sync.Mutex
	conns   map[net.Conn]struct{}
	silent  bool
	answers time.Duration // by which each part of an answer is late
}

func newProxy(t testing.TB, target string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p := &proxy{address: l.Addr().String(), target: target, listener: l, conns: map[net.Conn]struct{}{}}
	p.pipes.Go(p.accept)
	t.Cleanup(func() {
		_ = l.Close()
		p.cut()
		p.pipes.Wait()
	})
	return p
}

func (p *proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.target)
		if err != nil {
			_ = client.Close()
			continue
		}
		p.mu.Lock()
		p.conns[client], p.conns[server] = struct{}{}, struct{}{}
		p.mu.Unlock()
		p.pipes.Go(func() { p.pipe(server, client, false) })
		p.pipes.Go(func() { p.pipe(client, server, true) })
	}
}

// part is what was read from a connection, and when it is to go on.
type part struct {
	data []byte
	at   time.Time
}

// pipe forwards what comes from one side until either is closed.
func (p *proxy) pipe(to, from net.Conn, answers bool) {
	defer func() { _ = to.Close(); _ = from.Close() }()
	parts := make(chan part, 10_000)
	p.pipes.Go(func() {
		defer close(parts)
		for {
			buffer := make([]byte, 32*1024)
			n, err := from.Read(buffer)
			if n > 0 {
				parts <- part{buffer[:n], time.Now().Add(p.lateness(answers))}
			}
			if err != nil {
				return
			}
		}
	})
	for one := range parts {
		time.Sleep(time.Until(one.at))
		if !p.passes() {
			continue
		}
		if _, err := to.Write(one.data); err != nil {
			_ = from.Close()
		}
	}
}

func (p *proxy) lateness(answers bool) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !answers {
		return 0
	}
	return p.answers
}

// passes reports whether data passes.
func (p *proxy) passes() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.silent
}

// silence lets nothing through any more; what was under way is lost.
func (p *proxy) silence() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.silent = true
}

// delay makes answers late.
func (p *proxy) delay(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answers = d
}

// cut closes all connections, and lets new ones through.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		_ = c.Close()
	}
	p.conns = map[net.Conn]struct{}{}
	p.silent = false
}
